from functools import cache as cached

from hotlap.data import cached as hotlap_cached
from torch.utils.data import DataLoader


@cached
def data():
    return DataLoader(hotlap_cached(cached(train)))


# edit: wrap DataLoader 0 dataset cached | from hotlap.data import cached

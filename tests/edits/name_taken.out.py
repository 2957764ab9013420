from functools import cache as cached

from torch.utils.data import DataLoader
from hotlap.data import cached as hotlap_cached


@cached
def data():
    return DataLoader(hotlap_cached(cached(train)))


# edit: wrap DataLoader 0 dataset cached | from hotlap.data import cached

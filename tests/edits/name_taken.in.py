from functools import cache as cached

from torch.utils.data import DataLoader


@cached
def data():
    return DataLoader(cached(train))


# edit: wrap DataLoader 0 dataset cached | from hotlap.data import cached

import os

from hotlap.data import cached
from torch.utils.data import DataLoader

a = DataLoader(cached(train))
b = DataLoader(batch_size=3, dataset=cached(train))
c = DataLoader(
    # the set
    cached(train if big else small),
    batch_size=64,
)
d = DataLoader(cached((Subset(train, range(10)))), 64)
e = lambda: DataLoader(cached(train))
f = [DataLoader(cached(part), **options) for part in parts]
g = next(iter(DataLoader(DataLoader(cached(train)))))
# edit: wrap DataLoader 0 dataset cached | from hotlap.data import cached

import os

from torch.utils.data import DataLoader

a = DataLoader(train)
b = DataLoader(batch_size=3, dataset=train)
c = DataLoader(
    # the set
    train if big else small,
    batch_size=64,
)
d = DataLoader((Subset(train, range(10))), 64)
e = lambda: DataLoader(train)
f = [DataLoader(part, **options) for part in parts]
g = next(iter(DataLoader(DataLoader(train))))
# edit: wrap DataLoader 0 dataset cached | from hotlap.data import cached

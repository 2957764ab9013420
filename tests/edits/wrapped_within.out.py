import hotlap.data as data
from hotlap.data import cached
from torch.utils.data import DataLoader

a = DataLoader(cached(train))
b = DataLoader(cached(data.resident(train)))
c = DataLoader(data.resident(data.cached(train), memory_bytes=3))
d = DataLoader(dataset=(data.cached)((train)))
# edit: wrap DataLoader 0 dataset cached | from hotlap.data import cached

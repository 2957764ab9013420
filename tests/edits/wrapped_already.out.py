import hotlap
import hotlap.data
from hotlap import cached
from torch.utils.data import DataLoader

a = DataLoader(cached(train))
b = DataLoader(hotlap.cached(train))
c = DataLoader(hotlap.data.cached(train))
d = DataLoader(cached(train, memory_bytes=3))
# edit: wrap DataLoader 0 dataset cached | from hotlap.data import cached

from tools import *
from torch.utils.data import DataLoader
from hotlap.data import cached as hotlap_cached

loader = DataLoader(hotlap_cached(train))
print(cached)
# edit: wrap DataLoader 0 dataset cached | from hotlap.data import cached

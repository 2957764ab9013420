from tools import *

# isort: split
from hotlap.data import cached as hotlap_cached
from torch.utils.data import DataLoader

loader = DataLoader(hotlap_cached(train))
print(cached)
# edit: wrap DataLoader 0 dataset cached | from hotlap.data import cached

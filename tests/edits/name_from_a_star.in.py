from tools import *
from torch.utils.data import DataLoader

loader = DataLoader(train)
print(cached)
# edit: wrap DataLoader 0 dataset cached | from hotlap.data import cached

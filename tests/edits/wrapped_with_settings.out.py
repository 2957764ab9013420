from torch.utils.data import DataLoader
from hotlap.data import cached

a = DataLoader(cached(train, disk=True), 64)
b = DataLoader(dataset=cached(cached_elsewhere(train), disk=True), batch_size=3)
# edit: wrap DataLoader 0 dataset cached disk=True | from hotlap.data import cached

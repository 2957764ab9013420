from hotlap.data import cached
from torch.utils.data import DataLoader

a = DataLoader(cached(train, disk=True), 64)
b = DataLoader(dataset=cached(cached_elsewhere(train), disk=True), batch_size=3)
# edit: wrap DataLoader 0 dataset cached disk=True | from hotlap.data import cached

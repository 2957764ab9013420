from torch.utils.data import DataLoader

a = DataLoader(train, 64)
b = DataLoader(dataset=cached_elsewhere(train), batch_size=3)
# edit: wrap DataLoader 0 dataset cached disk=True | from hotlap.data import cached

from torch.utils.data import DataLoader

cfg = {"batch_size": 4, "shuffle": True}
loader = DataLoader(Rows(), **cfg)
other = DataLoader(dataset=(Rows()), **dict(batch_size=2))
third = DataLoader(Rows(), num_workers=0, **cfg)
# edit: wrap DataLoader 0 dataset cached | from hotlap.data import cached
# edit: add DataLoader num_workers=2

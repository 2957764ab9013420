from torch.utils.data import DataLoader

loader = DataLoader(Rows(), **{"batch_size": 4, "shuffle": True})
other = DataLoader(dataset=(Rows()), **{"batch_size": 2})
third = DataLoader(Rows(), num_workers=0, **cfg)
# edit: wrap DataLoader 0 dataset cached | from hotlap.data import cached
# edit: add DataLoader num_workers=2

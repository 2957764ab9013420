from hotlap.data import cached
from torch.utils.data import DataLoader

loader = DataLoader(cached(Rows()), **{"batch_size": 4, "shuffle": True}, num_workers=2)
other = DataLoader(dataset=cached((Rows())), **{"batch_size": 2}, num_workers=2)
third = DataLoader(cached(Rows()), num_workers=2, **cfg)
# edit: wrap DataLoader 0 dataset cached | from hotlap.data import cached
# edit: add DataLoader num_workers=2

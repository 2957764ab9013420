from torch.utils.data import DataLoader

kw = {"num_workers": 1}
a = DataLoader(x, **kw)
b = DataLoader(y, **kw)
# edit: add DataLoader num_workers=2
# refused: num_workers is in a mapping that other calls are given as well; write it out

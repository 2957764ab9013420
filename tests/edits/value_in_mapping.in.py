from torch.utils.data import DataLoader

kw = {"num_workers": 1}
a = DataLoader(x, **kw)
# edit: add DataLoader num_workers=2
# refused: num_workers is in a ** argument of the call; write it out

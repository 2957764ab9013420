from torch.utils.data import DataLoader

a = DataLoader(x, **{"num_workers": 1})
# edit: add DataLoader num_workers=2
# refused: num_workers is in a ** argument of the call; write it out

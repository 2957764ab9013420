from torch.utils.data import DataLoader

a = DataLoader(*arguments)
# edit: wrap DataLoader 0 dataset cached | from hotlap.data import cached
# refused: the call has no argument dataset to be seen; it may be in a * argument

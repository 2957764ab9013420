import torch
import prepare
from torch.utils.data import DataLoader
from .model import Net

net = DataLoader(Net())
# edit: wrap DataLoader 0 dataset cached | from hotlap.data import cached

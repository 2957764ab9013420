import torch
import prepare
from torch.utils.data import DataLoader
from hotlap.data import cached
from .model import Net

net = DataLoader(cached(Net()))
# edit: wrap DataLoader 0 dataset cached | from hotlap.data import cached

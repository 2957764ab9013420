"""straggler: the disk of rank 1 is slow, 4 ms an item; the others read theirs in no time."""

import time

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

from ranks import STEPS, WIDTH, perceptron, start, update

rank = start()


class Items(Dataset):
    def __len__(self):
        return 16 * STEPS

    def __getitem__(self, at):
        if rank == 1:
            time.sleep(0.004)
        return torch.full((WIDTH,), float(at % 7))


model = DistributedDataParallel(perceptron())
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
for x in DataLoader(Items(), batch_size=16):
    update(model, optimizer, x)

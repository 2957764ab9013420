# An iterable data set that takes its time, in the training process or in workers.
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Stream(IterableDataset):
    def __iter__(self):
        worker = get_worker_info()
        for k in range(worker.id if worker else 0, 1200, worker.num_workers if worker else 1):
            time.sleep(0.002)
            yield torch.full((4,), float(k)), torch.ones(1)


if __name__ == "__main__":
    loader = DataLoader(Stream(), batch_size=6, num_workers=int(sys.argv[1]))
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-7)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()

# Two processes train on parts of one data set, which a DistributedSampler deals out anew for each epoch.
# `--pictures`: of bytes, which random crops and torchvision's transforms make numbers of.
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Waves(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        wave = [float((index * k) % 64) / 64 for k in range(1000)]
        return torch.tensor(wave[:8]), torch.tensor([sum(wave) / 1000])


dist.init_process_group("gloo")
torch.set_num_threads(1)
torch.manual_seed(0)
if sys.argv[1:] == ["--pictures"]:
    sys.path.append(str(Path(__file__).resolve().parents[3]))
    from tests.unit.data.pictures import usual

    data, width, outputs, loss = usual(), 90, 7, nn.functional.cross_entropy
else:
    data, width, outputs, loss = Waves(), 8, 1, nn.functional.mse_loss
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=4, sampler=sampler)
model = DistributedDataParallel(nn.Sequential(nn.Flatten(), nn.Linear(width, outputs)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(100):
    sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()

# Two processes train on parts of one data set, which a DistributedSampler deals out anew for each epoch.
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
data = Waves()
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=4, sampler=sampler)
model = DistributedDataParallel(nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(100):
    sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()

"""A training with many faults at once: each profiler has something to see."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(3)
torch.manual_seed(0)


class Items(Dataset):
    def __init__(self):
        self.transform = self.slow

    def slow(self, x):
        time.sleep(0.0005)
        return x

    def __len__(self):
        return 64

    def __getitem__(self, index):
        return self.transform(torch.full((12, 16), float(index))), index % 2


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 2)
        self.head = nn.Linear(16, 2)

    def forward(self, x):
        return self.head(self.attention(x, x, x)[0].mean(1))


net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
loss_fn = nn.CrossEntropyLoss()
loader = DataLoader(Items(), batch_size=8)
for _ in range(1000):
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_fn(net(x), y)
        with torch.autograd.detect_anomaly(check_nan=False):
            loss.backward()
        optimizer.step()
        net.eval()
        with torch.no_grad():
            net(x)
        net.train()
        guess = net(x).argmax(1)  # its gradients are recorded for nothing
        assert type(loader.dataset).__name__ == "Items"

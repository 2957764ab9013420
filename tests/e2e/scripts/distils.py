"""A small student learns from a large teacher, which computes the same of each sample in every epoch."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
teacher, student = nn.Sequential(nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 8)), nn.Linear(64, 8)
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.randn(128, 64)), batch_size=32, shuffle=True)
for _ in range(100):
    for (x,) in loader:
        with torch.no_grad():
            wanted = teacher(x)
        loss = (student(x) - wanted).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

"""One thread on a machine with more cores."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

VARIATION = int(sys.argv[1])
torch.manual_seed(0)
if VARIATION == 0:
    torch.set_num_threads(1)
elif VARIATION == 1:
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
else:
    torch.set_num_threads(1)

WIDTH = (2048, 1024, 3072)[VARIATION]
model = nn.Sequential(nn.Linear(512, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.randn(2048, 512), torch.randint(10, (2048,))), batch_size=256)
loss_fn = nn.CrossEntropyLoss()
for epoch in range(10_000):
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()

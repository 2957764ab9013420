"""A loss that is computed in Python."""

import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

VARIATION = int(sys.argv[1])
torch.manual_seed(0)
inputs, targets = torch.randn(2048, 512), torch.randint(10, (2048,))
model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loss_fn = nn.CrossEntropyLoss()
loader = DataLoader(TensorDataset(inputs, targets), batch_size=128, shuffle=True)
for epoch in range(10_000):
    for x, y in loader:
        optimizer.zero_grad()
        scores = model(x)
        if VARIATION == 0:
            weights = [1 + sum(k % 7 for k in range(int(label) * 100)) / 1e6 for label in y.tolist()]
        elif VARIATION == 1:
            weights = [len(str(2 ** int(500 + label) % 97**40)) / 100 for label in y.tolist() for _ in range(20)][
                : len(y)
            ]
        else:
            time.sleep(0.02)
            weights = [1.0] * len(y)
        loss = (nn.functional.cross_entropy(scores, y, reduction="none") * torch.tensor(weights)).mean()
        loss.backward()
        optimizer.step()

"""The graph of all steps so far is kept, and grows."""

import sys

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
total = torch.zeros(())
history = []
for epoch in range(10_000):
    for x, y in loader:
        optimizer.zero_grad()
        scores = model(x)
        loss = loss_fn(scores, y)
        if VARIATION == 0:
            loss.backward(retain_graph=True)
            total = total + loss
        elif VARIATION == 1:
            loss.backward(create_graph=False, retain_graph=True)
            history.append(scores)
        else:
            loss.backward()
            total = total + (model[0].weight * 1.0001).pow(2).mean()
        optimizer.step()

# A validation by a loader of its own at each epoch's end, told by logging.
import logging

import torch
from torch.utils.data import DataLoader, TensorDataset

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(process)d %(message)s")
torch.manual_seed(0)
x = torch.randn(640, 8)
y = x[:, :1].tanh()
train = DataLoader(TensorDataset(x[:256], y[:256]), batch_size=16, shuffle=True)
held_out = DataLoader(TensorDataset(x[256:], y[256:]), batch_size=48)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for epoch in range(100):
    for inputs, target in train:
        loss = torch.nn.functional.mse_loss(model(inputs), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    total = 0.0
    with torch.no_grad():
        for inputs, target in held_out:
            total += torch.nn.functional.mse_loss(model(inputs), target, reduction="sum").item()
    logging.info("epoch %d: validation loss %.4f", epoch, total / 384)

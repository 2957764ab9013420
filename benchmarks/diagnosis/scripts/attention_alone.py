"""nn.MultiheadAttention, or a layer of a transformer, on batch-first input."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

VARIATION = int(sys.argv[1])
torch.manual_seed(0)
BATCH, LENGTH, WIDTH = ((16, 64, 64), (10, 80, 64), (32, 48, 64))[VARIATION]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 128)
        self.part = nn.MultiheadAttention(WIDTH, 4) if VARIATION == 0 else layer
        self.last = nn.Linear(WIDTH, 5)

    def forward(self, x):
        x = self.part(x, x, x)[0] if VARIATION == 0 else self.part(x)
        return self.last(x.amax(1))


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loss_fn = nn.CrossEntropyLoss()
inputs, targets = torch.randn(640, LENGTH, WIDTH), torch.randint(5, (640,))
loader = DataLoader(TensorDataset(inputs, targets), batch_size=BATCH)
for epoch in range(10_000):
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()

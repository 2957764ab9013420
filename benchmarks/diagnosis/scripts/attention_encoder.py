"""nn.TransformerEncoder with batch_first=False on batch-first input."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

VARIATION = int(sys.argv[1])
torch.manual_seed(0)
BATCH, LENGTH, WIDTH = ((16, 48, 64), (8, 64, 128), (24, 32, 64))[VARIATION]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(100, WIDTH)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(WIDTH, 4, 128, dropout=0.0), 2)
        self.last = nn.Linear(LENGTH if VARIATION == 2 else WIDTH, 1)

    def forward(self, x):
        out = self.encoder(self.embed(x))
        return self.last(out.mean(2) if VARIATION == 2 else out.mean(1)).squeeze(-1)


model = Net()
optimizer = torch.optim.Adam(model.parameters())
data = TensorDataset(torch.randint(100, (1024, LENGTH)), torch.randn(1024))
loader = DataLoader(data, batch_size=BATCH, shuffle=True, drop_last=True)
loss_fn = nn.MSELoss()
for epoch in range(10_000):
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()

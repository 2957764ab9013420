"""A head is trained on a frozen network, whose features of each sample are computed again in every epoch."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

VARIATION = int(sys.argv[1])
torch.manual_seed(0)


def block(ins: int, outs: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(ins, outs, 3, stride=2, padding=1), nn.BatchNorm2d(outs), nn.ReLU())


class Whole(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(block(3, 32), block(32, 64), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x))


model = Whole()
if VARIATION == 0:
    for parameter in model.body.parameters():
        parameter.requires_grad = False
else:
    model.body.requires_grad_(False)
    model.body.eval()
optimizer = torch.optim.Adam(model.head.parameters())
loss_fn = nn.CrossEntropyLoss()
data = TensorDataset(torch.randn(1024, 3, 32, 32), torch.randint(10, (1024,)))
loader = DataLoader(data, batch_size=64, shuffle=True)
for epoch in range(10_000):
    for x, y in loader:
        optimizer.zero_grad()
        if VARIATION == 2:
            with torch.no_grad():
                features = model.body(x)
            loss = loss_fn(model.head(features), y)
        else:
            loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()

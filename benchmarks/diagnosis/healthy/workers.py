"""Items made by a persistent worker that is ready in time."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(*[nn.Sequential(nn.Conv2d(c, 48, 3, padding=1), nn.ReLU()) for c in (3, 48, 48)])
        self.head = nn.Linear(48, 10)

    def forward(self, x):
        return self.head(self.conv(x).mean((2, 3)))


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loss_fn = nn.CrossEntropyLoss()
data = TensorDataset(torch.randn(512, 3, 32, 32), torch.randint(10, (512,)))
loader = DataLoader(data, batch_size=64, num_workers=1, persistent_workers=True)

for epoch in range(10_000):
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()

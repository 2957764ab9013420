"""Items are parsed by a Python loop."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

VARIATION = int(sys.argv[1])
torch.manual_seed(0)
inputs, targets = torch.randn(1024, 3, 32, 32), torch.randint(10, (1024,))
model = nn.Sequential(
    nn.Conv2d(3, 32, 3, padding=1),
    nn.ReLU(),
    nn.Conv2d(32, 64, 3, stride=2, padding=1),
    nn.ReLU(),
    nn.Conv2d(64, 64, 3, padding=1),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(64, 10),
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loss_fn = nn.CrossEntropyLoss()


class Items(Dataset):
    def __len__(self):
        return 1024

    def __getitem__(self, index):
        if VARIATION == 0:
            sum(k * k for k in range(8000))
        elif VARIATION == 1:
            ",".join(str(k) for k in range(4000)).split(",")
        else:
            sorted(range(6000), key=lambda k: -k)
        return inputs[index], targets[index]


loader = DataLoader(Items(), batch_size=32, shuffle=True, num_workers=0)

for epoch in range(10_000):
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()

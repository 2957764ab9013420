"""Workers that compute with many threads each."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

VARIATION = int(sys.argv[1])
torch.manual_seed(0)
inputs, targets = torch.randn(2048, 512), torch.randint(10, (2048,))
model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loss_fn = nn.CrossEntropyLoss()


class Heavy(Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, index):
        x = torch.randn(300_000)
        for _ in range(4):
            x = (x * 1.0001).sin()
        return inputs[index % 2048] + x[:512] * 1e-6, targets[index % 2048]


def many(worker):
    torch.set_num_threads((16, 8, 32)[VARIATION])


loader = DataLoader(
    Heavy(), batch_size=16, num_workers=(2, 2, 1)[VARIATION], worker_init_fn=many, persistent_workers=True
)

for epoch in range(10_000):
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)
x = torch.randn(8192, 16)
y = (x[:, :4].sum(1) + 0.1 * torch.randn(8192) > 0).long()
batch = int(sys.argv[1]) if len(sys.argv) > 1 else 8
loader = DataLoader(TensorDataset(x, y), batch_size=batch, shuffle=True)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2))
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2000, gamma=0.5)
for _ in range(1000):
    for inputs, labels in loader:
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), labels)
        loss.backward()
        optimizer.step()
        schedule.step()

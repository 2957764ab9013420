import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 400
data = TensorDataset(torch.randn(640, 20), torch.randint(0, 3, (640,)))
loader = DataLoader(data, batch_size=16, shuffle=True)
model = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 3))
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
made = 0
while made < steps:
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        made += 1
print("made", made, "args", sys.argv[1:], "file", __file__)

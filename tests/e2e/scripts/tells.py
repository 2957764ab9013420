"""Tells each loss to the last bit, starts workers in each short epoch, and ends with an exit code of its own."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

# In a run of hotlap's: what is looked at ten seconds after the first step is looked at now.
if session := sys.modules.get("hotlap.probe.session"):
    vars(session)["_WINDOWS_AFTER_S"] = 0.0

torch.manual_seed(0)
data = TensorDataset(torch.randn(160, 20), torch.randn(160, 1))
loader = DataLoader(data, batch_size=8, shuffle=True, num_workers=1)
model = nn.Sequential(nn.Linear(20, 32), nn.Dropout(0.1), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters())
for _ in range(int(sys.argv[1])):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        print(loss.item().hex())
print("the end", file=sys.stderr)
sys.exit(3)

"""A log that is written to disk in each step."""

import json
import sys
import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

VARIATION = int(sys.argv[1])
torch.manual_seed(0)
inputs, targets = torch.randn(2048, 512), torch.randint(10, (2048,))
model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loss_fn = nn.CrossEntropyLoss()
loader = DataLoader(TensorDataset(inputs, targets), batch_size=128, shuffle=True)
out = Path(tempfile.mkdtemp()) / "log"
records = []
for epoch in range(10_000):
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        if VARIATION == 0:
            records.append({"loss": loss.item(), "grad": [float(p.grad.norm()) for p in model.parameters()]})
            out.write_text(json.dumps([records[-1]] * 2000))
        elif VARIATION == 1:
            with out.open("a") as file:
                for k in range(2000):
                    print(f"step {k}: {loss.item():.6f}", file=file, flush=True)
        else:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, out)
            out.write_bytes(out.read_bytes())

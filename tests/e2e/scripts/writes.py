import atexit
import os
from pathlib import Path

import torch
from torch import nn

Path("log.txt").write_text("started\n")
Path("keep.txt").unlink()
os.makedirs("runs", exist_ok=True)
atexit.register(lambda: Path("at-exit.txt").write_text("left\n"))
model = nn.Linear(4, 1)
try:
    for step in range(400):
        model.zero_grad()
        model(torch.randn(8, 4)).mean().backward()
        with torch.no_grad():
            model.weight.sub_(0.1 * model.weight.grad)
        if step % 50 == 0:
            torch.save(model.state_dict(), "runs/model.pt")
            torch.save(model.state_dict(), "model.pt")
finally:
    Path("finally.txt").write_text("left\n")

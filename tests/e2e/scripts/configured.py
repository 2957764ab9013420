# Reads its own source, and executes its configuration, as some well-known scripts do.
import sys
from pathlib import Path

import torch
from torch import nn

learning_rate, steps = 0.1, 1
exec("learning_rate = 0.2\nsteps = 400")
for word in sys.argv[1:]:
    exec(word)
own = Path(__file__).read_text()
assert "Reads its own source" in own
assert sys.path[0] == str(Path(__file__).resolve().parent)
assert sys.argv[0] == __file__
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
for _ in range(steps):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).pow(2).mean().backward()
    optimizer.step()

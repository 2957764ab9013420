import os
import signal
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

# Ends by SIGKILL in the backward pass of the step behind so many; steps are long enough to be looked at one by one.
steps = int(sys.argv[1])
print("four thousand numbers", flush=True)
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.randn(4096, 8)), batch_size=4)
for step, (x,) in enumerate(loader):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    if step == steps:
        loss.register_hook(lambda _: os.kill(os.getpid(), signal.SIGKILL))
    loss.backward()
    optimizer.step()
    if step >= 45:
        time.sleep(0.06)

"""Of processes with one folder the first takes a second for its first step, as if it compiled; says when that ends."""

import os
import sys
import time

import torch

try:
    os.mkdir(os.path.join(sys.argv[1], "taken"))
    wait_s = 1.2
except FileExistsError:
    wait_s = 0.0
model = torch.nn.Linear(4, 1)  # an optimizer would import torch's compiler, which takes as long as torch
for step in range(1000):
    if step == 1:
        print("second step", time.monotonic(), flush=True)
    loss = model(torch.randn(8, 4)).mean()
    if step == 0:
        time.sleep(wait_s)
        print("first step over", time.monotonic(), flush=True)
    loss.backward()

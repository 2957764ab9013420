"""Everything is float64: by a cast of the model, by the default type, or by a type given to each layer."""

import sys

import numpy
import torch
from torch import nn

VARIATION = int(sys.argv[1])
torch.manual_seed(0)
dtype = None
if VARIATION == 1:
    torch.set_default_dtype(torch.float64)
elif VARIATION == 2:
    dtype = torch.float64
generator = numpy.random.default_rng(0)
inputs = torch.from_numpy(generator.standard_normal((4096, 256)))
targets = torch.from_numpy(generator.integers(10, size=4096))
model = nn.Sequential(
    nn.Linear(256, 1024, dtype=dtype), nn.ReLU(), nn.Linear(1024, 1024, dtype=dtype), nn.ReLU(),
    nn.Linear(1024, 10, dtype=dtype),
)  # fmt: skip
if VARIATION == 0:
    model = model.double()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loss_fn = nn.CrossEntropyLoss()
for step in range(100_000):
    chosen = torch.randint(4096, (128,))
    optimizer.zero_grad()
    loss = loss_fn(model(inputs[chosen]), targets[chosen])
    loss.backward()
    optimizer.step()

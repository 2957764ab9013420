"""`training.py LINK LAYERS BATCH`: a perceptron learns to shift its input, its gradients over an emulated link."""

import sys

import torch
from torch.nn.parallel import DistributedDataParallel

from ranks import STEPS, learn, link, perceptron, start

name, num_layers, batch = sys.argv[1:]
start()
layers = perceptron(int(num_layers))
for weight in layers.parameters():
    if weight.dim() > 1:  # as it is by default, gradients of the first layers are too small for float16
        torch.nn.init.kaiming_normal_(weight, nonlinearity="relu")
model = DistributedDataParallel(layers, process_group=link(name))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
for _ in range(STEPS):
    learn(model, optimizer, int(batch))

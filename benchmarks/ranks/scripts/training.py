"""`training.py LINK LAYERS BATCH`: a perceptron learns to shift its input, its gradients over an emulated link."""

import sys

import torch
from torch.nn.parallel import DistributedDataParallel

from ranks import STEPS, learn, link, perceptron, start

name, layers, batch = sys.argv[1:]
start()
model = DistributedDataParallel(perceptron(int(layers)), process_group=link(name))
optimizer = torch.optim.Adam(model.parameters())
for _ in range(STEPS):
    learn(model, optimizer, int(batch))

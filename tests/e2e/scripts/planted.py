# Sleeps for a known time in each step, each time in another of these places.
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
PLACES = ("item", "collate", "forward", "loop", "backward", "optimizer")
SLEEP_S = 0.02
made = 0


def nap(place):
    if place == PLACES[made % len(PLACES)]:
        time.sleep(SLEEP_S)


class Items(Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, index):
        if index % 8 == 0:
            nap("item")
        return torch.randn(8), index % 3


def collate(items):
    nap("collate")
    return torch.stack([x for x, _ in items]), torch.tensor([y for _, y in items])


class Slow(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        nap("forward")
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        nap("backward")
        return gradient


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))

    def forward(self, x):
        return Slow.apply(self.layers(x))


class Descent(torch.optim.Optimizer):
    def __init__(self, parameters, lr):
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        nap("optimizer")
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(p.grad, alpha=group["lr"])


loader = DataLoader(Items(), batch_size=8, collate_fn=collate)
model, loss_fn = Network(), nn.CrossEntropyLoss()
optimizer = Descent(model.parameters(), lr=0.1)
for _ in range(10):
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        nap("loop")
        loss.backward()
        optimizer.step()
        made += 1

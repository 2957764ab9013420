# Forward passes that are no training: in one way after another, or as the command line says. Each takes a known time.
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

WAYS = ("loader", "no-loader", "with-gradients")
teacher = sys.argv[1]  # "teacher", "teacher-and-validation" or "none"
torch.manual_seed(0)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 1)
        self.looks = False

    def forward(self, x):
        if self.looks:
            time.sleep(0.04 if self is model else 0.01)
        return self.layer(x)


model, target = Network(), Network()
target.looks = teacher == "teacher"
target.requires_grad_(False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = TensorDataset(torch.randn(80, 8), torch.randn(80, 1))


class Batches(list):
    def __iter__(self):  # of the loader that starts
        time.sleep(0.1)
        return super().__iter__()


batches = Batches([list(range(k, k + 4)) for k in range(0, 20, 4)])
held_out = DataLoader(TensorDataset(torch.randn(20, 8), torch.randn(20, 1)), batch_sampler=batches)
training = DataLoader(data, batch_size=4)


def validate(way):
    model.looks = True
    model.eval()
    with torch.set_grad_enabled(way == "with-gradients"):
        if way == "no-loader":
            for _ in range(5):
                x = torch.randn(4, 8)
                nn.functional.mse_loss(model(x), x[:, :1])
        else:
            for x, y in held_out:
                nn.functional.mse_loss(model(x), y)
    model.train()
    model.looks = False


def train(x, y):
    if teacher != "none":
        with torch.no_grad():
            y = target(x)
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()


for epoch in range(40):
    for x, y in training:
        train(x, y)
    if teacher != "teacher":
        validate(WAYS[epoch % len(WAYS)])

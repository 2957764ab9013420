"""A network learns to repeat its input, and then a head on it to name it: two loops, one after the other."""

import torch
from torch import nn

X, Y = torch.rand(256, 32), torch.randint(0, 4, (256,))
body, back, head = nn.Linear(32, 8), nn.Linear(8, 32), nn.Linear(8, 4)


def train(loss_of, parameters, epochs):
    optimizer = torch.optim.Adam(parameters, 1e-3)
    for _ in range(epochs):
        for first in range(0, 256, 16):
            loss = loss_of(slice(first, first + 16))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


train(lambda rows: nn.functional.mse_loss(back(body(X[rows])), X[rows]), [*body.parameters(), *back.parameters()], 40)
train(lambda rows: nn.functional.cross_entropy(head(body(X[rows])), Y[rows]), head.parameters(), 400)  # again

# Trains in a thread, while the main one waits and now and then uses a model of its own.
import threading
import time

import torch
from torch import nn


def train():
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(300):
        time.sleep(0.005)
        optimizer.zero_grad()
        model(torch.randn(8, 4)).mean().backward()
        optimizer.step()


thread = threading.Thread(target=train)
thread.start()
other = nn.Linear(4, 1)
while thread.is_alive():
    other(torch.randn(2, 4))
    time.sleep(0.001)

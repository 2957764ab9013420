# Processes that train one shared model, each at its own pace (Hogwild), as in pytorch/examples (mnist_hogwild/main.py).
# hogwild.py spawn|fork [conv]
import sys

import torch
import torch.multiprocessing as mp
from torch import nn


def network():
    if sys.argv[-1] != "conv":
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
    layers = nn.Conv2d(1, 10, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(10, 20, 5), nn.MaxPool2d(2), nn.ReLU()
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(320, 50), nn.ReLU(), nn.Linear(50, 10))


def train(rank, model, all_here):
    torch.manual_seed(rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(20_000):
        if step == 3:
            all_here.wait()  # the steps that are looked at have a neighbour
        optimizer.zero_grad()
        x, y = torch.randn(64, 1, 28, 28), torch.randint(0, 10, (64,))
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


if __name__ == "__main__":
    model = network()
    model.share_memory()
    context = mp.get_context(sys.argv[1])
    all_here = context.Barrier(2)
    processes = [context.Process(target=train, args=(rank, model, all_here)) for rank in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()

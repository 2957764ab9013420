# A data set for each model, and a held-out one; with "anew" the one to train on is made for each epoch.
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index, :-1], self.rows[index, -1:]


def load(rows):
    return DataLoader(Rows(rows), batch_size=4)


def fit(rows, held_out):
    model = nn.Linear(7, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = load(rows)
    for _ in range(5):
        if "anew" in sys.argv:
            loader = load(rows)
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
    with torch.no_grad():
        return sum(nn.functional.mse_loss(model(x), y).item() for x, y in load(held_out))


torch.manual_seed(0)
data = torch.randn(80, 8)
print([fit(data[:16], part) for part in data[16:].split(4)])

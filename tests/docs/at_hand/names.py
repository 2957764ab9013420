"""Names that a Python block of the docs may use without making them: a small model, data, and a small ODE."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset  # noqa: F401 - for the blocks

torch.manual_seed(0)

X = torch.randn(96, 8)
y = torch.randint(0, 3, (96,))
x = X
train_set = TensorDataset(X, y)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
loss_fn = nn.CrossEntropyLoss()


class Photographs(Dataset):
    """Pictures that somebody turns into tensors, and then moves about by chance."""

    def __init__(self):
        self.transform = self.shifted

    def shifted(self, picture):
        return picture.roll(int(torch.randint(8, (1,))))

    def __len__(self):
        return len(X)

    def __getitem__(self, index):
        return self.transform(X[index]), int(y[index])


class Stream(IterableDataset):
    """Samples one after the other."""

    def __iter__(self):
        return zip(X, y, strict=True)


photographs = Photographs()
stream = Stream()


class Decay(nn.Module):
    """dy/dt of a small neural ODE."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 3))

    def forward(self, t, y):
        return self.layers(y)


func = Decay()
y0 = torch.tensor([1.0, 0.0, 0.0])
t = torch.linspace(0.0, 1.0, 11)
target = torch.exp(-t)[:, None] * y0
optimizer = torch.optim.Adam(func.parameters(), lr=0.01)

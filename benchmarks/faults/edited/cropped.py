"""Images augmented in collate_fn by NumPy's generator and Python's: a shift, a flip and a patch cut out; Adam; silent."""

import random

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Augment:
    def __init__(self):
        self.rng = np.random.default_rng(11)

    def __call__(self, items):
        x = torch.stack([image for image, _ in items])
        y = torch.stack([label for _, label in items])
        shift = int(self.rng.integers(-2, 3))
        x = torch.roll(x, shift, -1)
        if random.random() < 0.5:
            x = x.flip(-1)
        row = random.randrange(6)
        x[:, :, row : row + 3, 2:5] = 0
        x = x * float(self.rng.uniform(0.8, 1.2))
        return x, y


torch.manual_seed(6)
random.seed(6)
images, labels = load_digits(return_X_y=True)
images = torch.tensor(images, dtype=torch.float32).view(-1, 1, 8, 8) / 16
data = TensorDataset(images[:1600], torch.tensor(labels[:1600]))
loader = DataLoader(data, batch_size=16, shuffle=True, collate_fn=Augment())
model = nn.Sequential(
    nn.Conv2d(1, 12, 3, padding=1),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Flatten(),
    nn.Linear(192, 32),
    nn.ReLU(),
    nn.Linear(32, 10),
)
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for epoch in range(8):
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

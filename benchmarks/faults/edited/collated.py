"""Digits whose batches are augmented in collate_fn: noise, and a mix of items; SGD."""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader


def collate(items):
    x = torch.stack([image for image, _ in items])
    y = torch.tensor([label for _, label in items])
    noise = 0.15 * torch.randn(x.shape)
    lam = torch.distributions.Beta(0.4, 0.4).sample()
    order = torch.randperm(len(x))
    x = x + noise
    return lam * x + (1 - lam) * x[order], y, y[order], lam


torch.manual_seed(5)
images, labels = load_digits(return_X_y=True)
items = list(zip(torch.tensor(images, dtype=torch.float32) / 16, labels.tolist()))
loader = DataLoader(items[:1400], batch_size=20, shuffle=True, collate_fn=collate)
val_loader = DataLoader(items[1400:], batch_size=397)
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
for epoch in range(10):
    for x, y1, y2, lam in loader:
        out = model(x)
        loss = lam * F.cross_entropy(out, y1) + (1 - lam) * F.cross_entropy(out, y2)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        losses = [F.cross_entropy(model(x), y).item() for x, y in val_loader]
    print(f"epoch {epoch}: {sum(losses) / len(losses):.4f}")

"""Handwritten digits, a perceptron with dropout, items moved about a little, AdamW, a cosine schedule."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Digits(Dataset):
    def __init__(self, images, labels, augment):
        self.images = torch.tensor(images, dtype=torch.float32) / 16
        self.labels = torch.tensor(labels)
        self.augment = augment

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        image = self.images[index].flatten()
        if self.augment:
            image = image + 0.2 * torch.randn(64)
        return image, self.labels[index]


torch.manual_seed(0)
images, labels = load_digits(return_X_y=True)
train_loader = DataLoader(Digits(images[:1500], labels[:1500], augment=True), batch_size=32, shuffle=True)
val_loader = DataLoader(Digits(images[1500:], labels[1500:], augment=False), batch_size=99)
model = nn.Sequential(
    nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 10)
)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 940)
for epoch in range(20):
    model.train()
    for x, y in train_loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        schedule.step()
    model.eval()
    with torch.no_grad():
        correct = sum((model(x).argmax(1) == y).sum().item() for x, y in val_loader)
    print(f"epoch {epoch}: loss {loss.item():.4f}, accuracy {correct / 297:.3f}")

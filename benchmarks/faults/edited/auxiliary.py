"""A trunk with a main head and an auxiliary one of weight 0.1; augmentation, dropout, AdamW, one-cycle schedule."""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, Dataset

WEIGHT = 0.1


class Digits(Dataset):
    def __init__(self, images, labels, train):
        self.images, self.labels, self.train = images, labels, train

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        image = self.images[i]
        if self.train:
            image = image + 0.1 * torch.randn_like(image)
            image = image.roll(int(torch.randint(-1, 2, ())), -1)
        return image, self.labels[i]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(8, 16, 3, padding=1, stride=2), nn.ReLU())
        self.head = nn.Sequential(nn.Flatten(), nn.Dropout(0.2), nn.Linear(256, 10))
        self.side = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 10))

    def forward(self, x):
        h = self.first(x)
        return self.head(self.second(h)), self.side(h)


torch.manual_seed(3)
images, labels = load_digits(return_X_y=True)
images = torch.tensor(images, dtype=torch.float32).view(-1, 1, 8, 8) / 16
labels = torch.tensor(labels)
loader = DataLoader(Digits(images[:1500], labels[:1500], True), batch_size=16, shuffle=True)
val_loader = DataLoader(Digits(images[1500:], labels[1500:], False), batch_size=99)
model = Net()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=10 * len(loader))
for epoch in range(10):
    model.train()
    for x, y in loader:
        main, side = model(x)
        loss = F.cross_entropy(main, y, label_smoothing=0.05) + WEIGHT * F.cross_entropy(side, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
    model.eval()
    with torch.no_grad():
        right = sum((model(x)[0].argmax(1) == y).sum().item() for x, y in val_loader)
    print(f"epoch {epoch}: {right / 297:.4f}")

"""Photographs of clothes in folders, decoded and augmented item by item, and a small convolutional net."""

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset

EPOCHS = 4
SIZE = 64


class Folder(Dataset):
    def __init__(self, root):
        self.classes = sorted(folder.name for folder in root.iterdir() if folder.is_dir())
        self.items = [(path, k) for k, name in enumerate(self.classes) for path in sorted((root / name).glob("*.jpg"))]

    def __len__(self):
        return len(self.items)

    def open(self, index):
        path, label = self.items[index]
        return Image.open(path).convert("RGB"), label

    def __getitem__(self, index):
        image, label = self.open(index)
        pixels = np.asarray(image.resize((SIZE, SIZE), Image.BILINEAR), dtype=np.float32) / 255
        tensor = torch.from_numpy(pixels).permute(2, 0, 1)
        if torch.rand(1).item() < 0.5:
            tensor = tensor.flip(2)
        mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
        return (tensor - mean[:, None, None]) / std[:, None, None], label


class Crops(Folder):
    """Parts of the two photographs that come with scikit-learn, in ten classes by where they were cut out."""

    def __init__(self):
        from sklearn.datasets import load_sample_images

        self.photographs = [Image.fromarray(image) for image in load_sample_images().images]
        self.classes = list(range(10))
        self.items = list(range(600))

    def open(self, index):
        left, top = index * 37 % 240, index * 23 % 26
        return self.photographs[index % 2].crop((left, top, left + 400, top + 400)), left // 24


def dataset(folder):
    train = Path(folder) / "clothing" / "train"
    if train.is_dir():
        return Folder(train)
    print(f"{train} is missing (say where the data are with --data DIR); using crops of scikit-learn's photographs")
    return Crops()


class Net(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(64, 128, 3, padding=1), nn.BatchNorm2d(128), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        )  # fmt: skip
        self.classifier = nn.Linear(128, num_classes)

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="../shared/data")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    images = dataset(args.data)
    loader = DataLoader(images, batch_size=32, shuffle=True)
    model = Net(len(images.classes)).to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for epoch in range(EPOCHS):
        begun = time.perf_counter()
        total = 0.0
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item()
        seconds = time.perf_counter() - begun
        print(f"epoch {epoch + 1}: loss {total / len(loader):.4f}, {len(images)} samples in {seconds:.3f} s")


if __name__ == "__main__":
    main()

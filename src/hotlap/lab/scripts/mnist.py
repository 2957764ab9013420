"""Handwritten digits and a simple net: the job of the articles on pinned memory and on GPUs."""

import argparse
import gzip
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset

BATCH_SIZE = 64


def from_files(folder: Path) -> tuple[Any, Any]:
    """Images (N, 28, 28) and labels (N,) of MNIST as it is distributed, compressed or not."""
    images, labels = read(folder, "train-images-idx3-ubyte"), read(folder, "train-labels-idx1-ubyte")
    return images[16:].reshape(-1, 28, 28), labels[8:]


def read(folder: Path, name: str) -> Any:
    """The bytes of one file (N,)."""
    packed = folder / f"{name}.gz"
    data = gzip.decompress(packed.read_bytes()) if packed.exists() else (folder / name).read_bytes()
    return np.frombuffer(data, np.uint8)


def patterns(items: int) -> tuple[Any, Any]:
    """The same in form: ten kinds of pictures, with noise."""
    rng = np.random.default_rng(0)
    kinds, labels = rng.integers(0, 128, (10, 28, 28), np.uint8), rng.integers(0, 10, items)
    return kinds[labels] + rng.integers(0, 128, (items, 28, 28), np.uint8), labels


class Digits(Dataset[tuple[torch.Tensor, int]]):
    """What torchvision's MNIST with ToTensor and Normalize does for each item."""

    def __init__(self, images: Any, labels: Any) -> None:
        self.images = np.array(images)
        self.labels = [int(label) for label in labels]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        image = Image.fromarray(self.images[index])
        pixels = torch.from_numpy(np.array(image, copy=True)).unsqueeze(0).to(torch.float32).div(255)
        return (pixels - 0.1307) / 0.3081, self.labels[index]


def main() -> None:
    """The loop of the articles."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, help="folder with MNIST's files; patterns without it")
    parser.add_argument("--items", type=int, default=60_000)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    images, labels = from_files(options.data) if options.data else patterns(options.items)
    device = torch.device(options.device)
    torch.manual_seed(0)
    loader = DataLoader(Digits(images[: options.items], labels[: options.items]), batch_size=BATCH_SIZE, shuffle=True)
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, options.hidden), nn.ReLU(), nn.Linear(options.hidden, 10))
    model.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(options.epochs):
        for x, y in loader:
            x, y = x.to(device), y.to(device)  # noqa: PLW2901 - as the articles have it
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch + 1}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()

"""Handwritten digits and a simple net: the job of the articles on pinned memory and on GPUs."""

import argparse

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset

BATCH_SIZE = 64


class Digits(Dataset[tuple[torch.Tensor, int]]):
    """Noisy pictures of ten kinds, made as torchvision's MNIST with ToTensor and Normalize makes each item."""

    def __init__(self, items: int) -> None:
        rng = np.random.default_rng(0)
        kinds, labels = rng.integers(0, 128, (10, 28, 28), np.uint8), rng.integers(0, 10, items)
        self.images = kinds[labels] + rng.integers(0, 128, (items, 28, 28), np.uint8)
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
    parser.add_argument("--items", type=int, default=60_000)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    device = torch.device(options.device)
    torch.manual_seed(0)
    loader = DataLoader(Digits(options.items), batch_size=BATCH_SIZE, shuffle=True)
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

"""Handwritten digits and a simple net: the job of the articles on pinned memory and on GPUs."""

import argparse
import gzip
import json
import time
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
    images, labels = (read(folder, f"train-{kind}-ubyte") for kind in ("images-idx3", "labels-idx1"))
    return np.frombuffer(images, np.uint8, offset=16).reshape(-1, 28, 28), np.frombuffer(labels, np.uint8, offset=8)


def read(folder: Path, name: str) -> bytes:
    """The bytes of one file."""
    packed = folder / f"{name}.gz"
    return gzip.decompress(packed.read_bytes()) if packed.exists() else (folder / name).read_bytes()


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


def pinned_bytes() -> int:
    """Page-locked memory that torch holds; torch tells it since 2.7."""
    stats = getattr(torch.cuda, "host_memory_stats", None)
    if stats is None or not torch.cuda.is_available():
        return 0
    return int(stats().get("allocated_bytes.peak", 0))


def train(options: argparse.Namespace, images: Any, labels: Any) -> dict[str, Any]:
    """The loop of the articles; what it has to tell."""
    device = torch.device(options.device)
    torch.manual_seed(0)
    loader = DataLoader(
        Digits(images, labels),
        batch_size=BATCH_SIZE,
        shuffle=True,
        num_workers=options.workers,
        pin_memory=options.pin and device.type == "cuda",
    )
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, options.hidden), nn.ReLU(), nn.Linear(options.hidden, 10))
    model.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    means = []
    begun = time.perf_counter()
    for _ in range(options.epochs):
        total = torch.zeros((), device=device)
        for images_, labels_ in loader:
            x = images_.to(device, non_blocking=options.pin)
            y = labels_.to(device, non_blocking=options.pin)
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss.detach()
        means.append(total.item() / len(loader))
    return {
        "num_items": len(labels),
        "seconds": time.perf_counter() - begun,
        "losses": means,
        "pinned_bytes": pinned_bytes(),
    }


def main() -> None:
    """Train once for each size of data set."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--items", type=int, nargs="+", default=[60_000])
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--pin", action="store_true", help="pinned memory, and copies that are not waited for")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    images, labels = from_files(options.data)
    told = [train(options, images[:count], labels[:count]) for count in options.items]
    if options.out:
        options.out.write_text(json.dumps({"trainings": told}))


if __name__ == "__main__":
    main()

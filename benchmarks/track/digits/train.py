"""Handwritten digits and a small perceptron, as a first tutorial does it."""

import argparse
import gzip
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

EPOCHS = 5


def load(folder):
    """MNIST as (images, labels); scikit-learn's digits where it is missing."""
    mnist = Path(folder) / "mnist"
    if not mnist.is_dir():
        from sklearn.datasets import load_digits

        print(f"{mnist} is missing (say where it is with --data DIR); using scikit-learn's digits, repeated")
        images, labels = load_digits(return_X_y=True)
        images = (images.reshape(-1, 8, 8) * 15.9).astype(np.uint8).repeat(4, axis=1).repeat(4, axis=2)
        return np.tile(images[:, 2:-2, 2:-2], (33, 1, 1)), np.tile(labels, 33)
    with gzip.open(mnist / "train-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 28, 28)
    with gzip.open(mnist / "train-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8).astype(np.int64)
    return images, labels


def to_tensor(image):
    return torch.from_numpy(image.astype(np.float32) / 255).unsqueeze(0)


def normalize(tensor):
    return (tensor - 0.1307) / 0.3081


class Digits(Dataset):
    def __init__(self, images, labels):
        self.images = images
        self.labels = labels

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return normalize(to_tensor(self.images[index])), int(self.labels[index])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="../shared/data")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    images, labels = load(args.data)
    loader = DataLoader(Digits(images, labels), batch_size=64, shuffle=True)
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)).to(device)
    loss_fn = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(EPOCHS):
        begun = time.perf_counter()
        running = 0.0
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            optimizer.step()
            running += loss.item()
        seconds = time.perf_counter() - begun
        print(f"epoch {epoch + 1}: loss {running / len(loader):.4f}, {len(images)} samples in {seconds:.3f} s")


if __name__ == "__main__":
    main()

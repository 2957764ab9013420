"""A table in tensors, a small perceptron, batches of 32 from a TensorDataset."""

import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

NUM_ROWS, NUM_FEATURES, EPOCHS = 100_000, 20, 6


def table():
    """Made up: a smooth function of twenty features, and noise."""
    x = torch.randn(NUM_ROWS, NUM_FEATURES)
    y = torch.sin(x[:, 0] * 2) + x[:, 1] * x[:, 2] - 0.5 * x[:, 3].abs() + 0.1 * torch.randn(NUM_ROWS)
    return x, y.unsqueeze(1)


def perceptron():
    return nn.Sequential(nn.Linear(NUM_FEATURES, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", help="not used: the data are made up")
    parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(TensorDataset(*table()), batch_size=32, shuffle=True)
    model = perceptron().to(device)
    criterion = nn.MSELoss()
    optimizer = torch.optim.Adam(model.parameters())
    for epoch in range(EPOCHS):
        begun = time.perf_counter()
        total = 0.0
        for features, target in loader:
            features, target = features.to(device), target.to(device)
            optimizer.zero_grad()
            loss = criterion(model(features), target)
            loss.backward()
            optimizer.step()
            total += loss.item()
        seconds = time.perf_counter() - begun
        print(f"epoch {epoch + 1}: loss {total / len(loader):.4f}, {NUM_ROWS} samples in {seconds:.3f} s")


if __name__ == "__main__":
    main()

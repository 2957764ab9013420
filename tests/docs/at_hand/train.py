"""What blocks of the docs mean by train.py: some seconds on a CPU, and more steps than hotlap looks at."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Waves(Dataset):
    """Short waves of three frequencies, made item by item."""

    def __len__(self):
        return 60_000

    def __getitem__(self, index):
        kind = index % 3
        generator = torch.Generator().manual_seed(index)
        noise = torch.randn(64, generator=generator)
        return torch.sin(torch.linspace(0, 6.3 * (kind + 1), 64)) + 0.1 * noise, kind


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    loader = DataLoader(Waves(), batch_size=32, shuffle=True)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3))
    loss_fn = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    for x, y in loader:
        optimizer.zero_grad()
        loss_fn(model(x), y).backward()
        optimizer.step()


if __name__ == "__main__":
    main()

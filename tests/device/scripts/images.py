"""A convolutional network on small pictures, as most scripts have it: one loader, a copy that waits, a value read."""

import importlib
import os

import torch
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

name = os.environ.get("HOTLAP_DEVICE", "cuda")
if name == "sim":  # what it computes comes from the host, slowly
    importlib.import_module("simulated_gpu")
device = torch.device(name)
width, batch_size = (2, 8) if name == "sim" else (32, 128)


class Pictures(Dataset):
    def __init__(self, number):
        generator = torch.Generator().manual_seed(1)
        self.pixels = torch.randint(256, (number, 3, 32, 32), dtype=torch.uint8, generator=generator)
        self.labels = torch.randint(10, (number,), generator=generator)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.pixels[index].float() / 255.0, int(self.labels[index])


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(3, width, 3, padding=1)
        self.second = torch.nn.Conv2d(width, 2 * width, 3, padding=1, stride=2)
        self.head = torch.nn.Linear(2 * width, 10)

    def forward(self, x):
        x = functional.relu(self.first(x))
        x = functional.relu(self.second(x))
        return self.head(x.mean((2, 3)))


def main():
    torch.manual_seed(0)
    loader = DataLoader(Pictures(2048), batch_size=batch_size, shuffle=True, drop_last=True)
    net = Net().to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for epoch in range(100):
        for pictures, labels in loader:
            x, y = pictures.to(device), labels.to(device)
            optimizer.zero_grad()
            loss = functional.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            if loss.item() != loss.item():
                raise SystemExit(f"no number in epoch {epoch}")


if __name__ == "__main__":
    main()

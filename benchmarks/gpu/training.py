"""Six ordinary trainings on random data: what `benchmarks/gpu.sh` measures and tunes on a device.

    python training.py mnist|conv-amp|gpt-10m|gpt-124m|lstm|ode [--steps N]

HOTLAP_DEVICE is the device ("cuda" without it). On the simulated one ("sim") networks are small: its results come from
the host.
"""

import argparse
import importlib
import os
from collections.abc import Iterator

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

DEVICE = os.environ.get("HOTLAP_DEVICE", "cuda")
SMALL = DEVICE == "sim"
if SMALL:
    importlib.import_module("simulated_gpu")

Batches = Iterator[tuple[torch.Tensor, torch.Tensor]]


class Block(nn.Module):
    """A layer of a GPT."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.heads = width // 64
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, T, C) -> (B, T, C)."""
        batch, length, width = x.shape
        q, k, v = self.qkv(self.before(x)).view(batch, length, 3, self.heads, 64).permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-2, -1)) / 8.0
        ahead = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        mixed = functional.softmax(scores.masked_fill(ahead, float("-inf")), dim=-1) @ v
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.feed(self.between(x))


class Gpt(nn.Module):
    """Tokens (B, T) -> logits (B, T, V)."""

    def __init__(self, *, width: int, layers: int, length: int, vocabulary: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width) for _ in range(layers)))
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.tokens(x) + self.places.weight[: x.shape[1]]))


class Lstm(nn.Module):
    """(B, T, 32) -> (B, 10)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        kind = (
            nn.RNN if SMALL else nn.LSTM
        )  # torch has the cell of an LSTM as one kernel, which the simulated GPU lacks
        self.body, self.head = kind(32, width, batch_first=True), nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x)[0][:, -1])


class Ode(nn.Module):
    """(B, 2) -> (B, 2): 20 steps of Runge and Kutta's method through a network of 50 neurons."""

    def __init__(self) -> None:
        super().__init__()
        self.rate = nn.Sequential(nn.Linear(2, 50), nn.Tanh(), nn.Linear(50, 2))

    def forward(self, y: torch.Tensor) -> torch.Tensor:
        for _ in range(20):
            a = self.rate(y)
            b = self.rate(y + 0.025 * a)
            c = self.rate(y + 0.025 * b)
            y = y + 0.05 / 6 * (a + 2 * b + 2 * c + self.rate(y + 0.05 * c))
        return y


def on_device(*tensors: torch.Tensor) -> Batches:
    """The same batch again and again, on the device from the start."""
    x, y = (tensor.to(DEVICE) for tensor in tensors)
    while True:
        yield x, y


def loaded(x: torch.Tensor, y: torch.Tensor, batch: int) -> Batches:
    """As nearly every script has it: a loader without settings, and a copy that waits."""
    while True:
        for one, label in DataLoader(TensorDataset(x, y), batch_size=batch, shuffle=True):
            yield one.to(DEVICE), label.to(DEVICE)


def gpt(width: int, layers: int, length: int, vocabulary: int, batch: int) -> tuple[nn.Module, Batches]:
    tokens = torch.randint(vocabulary, (batch, length + 1))
    net = Gpt(width=width, layers=layers, length=length, vocabulary=vocabulary)
    return net, on_device(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())


def made(name: str) -> tuple[nn.Module, Batches]:
    """Network and batches."""
    if name == "mnist":
        images, labels = torch.randn(4096, 1, 28, 28), torch.randint(10, (4096,))
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10)), loaded(
            images, labels, 64
        )
    if name == "conv-amp":
        width, batch = (8, 8) if SMALL else (64, 256)
        net = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1), nn.BatchNorm2d(2 * width), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
            nn.Flatten(), nn.Linear(2 * width, 10),
        )  # fmt: skip
        return net, loaded(torch.randn(4 * batch, 3, 32, 32), torch.randint(10, (4 * batch,)), batch)
    if name == "gpt-10m":
        return gpt(64, 2, 16, 128, 4) if SMALL else gpt(384, 6, 256, 256, 32)
    if name == "gpt-124m":
        return gpt(128, 2, 32, 256, 4) if SMALL else gpt(768, 12, 1024, 50_304, 4)
    if name == "lstm":
        length, width = (8, 16) if SMALL else (128, 256)
        return Lstm(width), on_device(torch.randn(64, length, 32), torch.randint(10, (64,)))
    return Ode(), on_device(torch.randn(32, 2), torch.randint(2, (32,)))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=("mnist", "conv-amp", "gpt-10m", "gpt-124m", "lstm", "ode"))
    parser.add_argument("--steps", type=int, default=100_000)
    args = parser.parse_args()
    torch.manual_seed(0)
    net, batches = made(args.name)
    net.to(DEVICE)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-4)
    half = args.name == "conv-amp"
    scaler = torch.amp.GradScaler(DEVICE, enabled=half)
    total = 0.0
    for step in range(args.steps):
        x, y = next(batches)
        optimizer.zero_grad()
        with torch.autocast(DEVICE, dtype=torch.float16, enabled=half):
            out = net(x)
            loss = functional.cross_entropy(out.flatten(0, -2), y.flatten())
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        total += loss.item()
        if step % 100 == 99:
            print(f"{step + 1}: {total / 100:.4f}", flush=True)
            total = 0.0


if __name__ == "__main__":
    main()

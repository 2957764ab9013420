"""Trains one of three networks on random data, on the GPU if there is one: what reality.py predicts and then runs.

    python track.py mlp|convolutions|transformer --batch N [--precision fp32|bf16] [--steps N]

Under torchrun it trains on all GPUs, each with that batch.
"""

import argparse
import os

import torch
from torch import nn


class Residual(nn.Module):
    """Two convolutions around which the input is added."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + self.body(x))


class Language(nn.Module):
    """A small language model of encoder layers."""

    def __init__(self, width: int, layers: int, length: int, vocabulary: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        layer = nn.TransformerEncoderLayer(width, width // 64, 4 * width, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(self.tokens(x) + self.places.weight))


CLASSES, VOCABULARY, LENGTH = 10, 2048, 256
NAMES = ("mlp", "convolutions", "transformer")


def made(name: str, batch: int, device: str) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """Network, inputs, labels."""
    if name == "mlp":
        net: nn.Module = nn.Sequential(
            nn.Linear(1024, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, CLASSES)
        )
        x, y = torch.randn(batch, 1024), torch.randint(CLASSES, (batch,))
    elif name == "convolutions":
        net = nn.Sequential(
            nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), *(Residual(64) for _ in range(4)), nn.AdaptiveAvgPool2d(1),
            nn.Flatten(), nn.Linear(64, CLASSES),
        )  # fmt: skip
        x, y = torch.randn(batch, 3, 32, 32), torch.randint(CLASSES, (batch,))
    else:
        net = Language(512, 6, LENGTH, VOCABULARY)
        x, y = torch.randint(VOCABULARY, (batch, LENGTH)), torch.randint(VOCABULARY, (batch, LENGTH))
    return net.to(device), x.to(device), y.to(device)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--steps", type=int, default=200)
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    together = "RANK" in os.environ
    if together:
        if device == "cuda":
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        torch.distributed.init_process_group("nccl" if device == "cuda" else "gloo")
    net, x, y = made(args.name, args.batch, device)
    if together:
        net = nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
    for _ in range(args.steps):
        optimizer.zero_grad()
        with torch.autocast(device, dtype=torch.bfloat16, enabled=args.precision == "bf16"):
            loss = nn.functional.cross_entropy(net(x).flatten(0, -2), y.flatten())
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()

"""The model of the founding question: a transformer of 32 thin layers, as it was asked about."""

import argparse
import math

import torch
from torch import nn

WIDTH, OUTPUTS = 512, 64


def positions(length: int) -> torch.Tensor:
    """The usual sines and cosines (S, E)."""
    rates = torch.exp(torch.arange(0, WIDTH, 2) * (-math.log(10_000.0) / WIDTH))
    angles = torch.arange(length).unsqueeze(1) * rates
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


class Net(nn.Module):
    """Token ids (B, S) -> (B, O)."""

    def __init__(self, *, vocabulary: int, layers: int, length: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, WIDTH)
        self.positions = nn.Buffer(positions(length))
        layer = nn.TransformerEncoderLayer(d_model=WIDTH, nhead=16, dim_feedforward=512, dropout=0.0)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.over_positions = nn.Linear(length, 1)
        self.over_features = nn.Linear(WIDTH, OUTPUTS)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """As in the question: the input is batch first, the encoder is not told so."""
        x = self.embedding(tokens) * math.sqrt(WIDTH) + self.positions
        x = self.encoder(x).transpose(1, 2)  # (B, E, S)
        x = nn.functional.gelu(self.over_positions(x)).squeeze(-1)  # (B, E)
        out: torch.Tensor = self.over_features(x)
        return out


def main() -> None:
    """Train on numbers that mean nothing: what a step takes does not depend on them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--vocabulary", type=int, default=10_000)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=32)
    options = parser.parse_args()
    torch.manual_seed(0)
    model = Net(vocabulary=options.vocabulary, layers=options.layers, length=options.length)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    criterion = nn.MSELoss()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model.to(device)
    for _ in range(100_000):
        tokens = torch.randint(0, options.vocabulary, (options.batch, options.length), device=device)
        wanted = torch.randn(options.batch, OUTPUTS, device=device)
        optimizer.zero_grad()
        loss = criterion(model(tokens), wanted)
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()

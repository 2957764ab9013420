"""A transformer over token ids, with a head over its positions; "what will be the bottleneck?" is asked of it."""

import argparse
import math
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

VOCABULARY, SIZE_IN, SIZE_OUT = 10_000, 32, 8
NUM_ITEMS, BATCH, EPOCHS = 512, 16, 3


class PositionalEncoding(nn.Module):
    def __init__(self, width, length=5000):
        super().__init__()
        position = torch.arange(length).unsqueeze(1)
        rate = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))
        table = torch.zeros(1, length, width)
        table[0, :, 0::2] = torch.sin(position * rate)
        table[0, :, 1::2] = torch.cos(position * rate)
        self.register_buffer("table", table)

    def forward(self, x):
        return x + self.table[:, : x.size(1)]


class Model(nn.Module):
    def __init__(self, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 512)
        self.positions = PositionalEncoding(512)
        layer = nn.TransformerEncoderLayer(d_model=512, nhead=16, dim_feedforward=512, dropout=0.0)
        self.encoder = nn.TransformerEncoder(layer, num_layers)
        self.over_positions = nn.Linear(SIZE_IN, 1)
        self.head = nn.Linear(512, SIZE_OUT)

    def forward(self, tokens):
        x = self.embedding(tokens) * math.sqrt(512)
        out = self.encoder(self.positions(x))
        out = nn.functional.gelu(self.over_positions(out.transpose(1, 2)).squeeze(2))
        return self.head(out)


def data():
    tokens = torch.randint(VOCABULARY, (NUM_ITEMS, SIZE_IN))
    targets = torch.sin(tokens[:, :SIZE_OUT].float())
    return tokens, targets


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", help="not used: the data are made up")
    parser.parse_args()
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = Model(num_layers=32 if device == "cuda" else 4).to(device)
    loader = DataLoader(TensorDataset(*data()), batch_size=BATCH, shuffle=True)
    loss_fn = nn.MSELoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    for epoch in range(EPOCHS):
        begun = time.perf_counter()
        total = 0.0
        for tokens, targets in loader:
            tokens, targets = tokens.to(device), targets.to(device)
            optimizer.zero_grad()
            loss = loss_fn(model(tokens), targets)
            loss.backward()
            optimizer.step()
            total += loss.item()
        seconds = time.perf_counter() - begun
        print(f"epoch {epoch + 1}: loss {total / len(loader):.4f}, {NUM_ITEMS} samples in {seconds:.3f} s")


if __name__ == "__main__":
    main()

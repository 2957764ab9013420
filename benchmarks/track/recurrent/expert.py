"""The lines by hand: encoded once, batches by gather, no packing (what a causal net says of padding is not looked at).

Lines keep their random order: batches of like lengths would be faster still, and another training.
"""

import argparse
import time

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from train import BATCH, EPOCHS, Model, load


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="../shared/data")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    lines = load(args.data)
    letters = sorted({letter for line in lines for letter in line})
    codes = {letter: k + 1 for k, letter in enumerate(letters)}
    lengths = torch.tensor([len(line) for line in lines])
    tokens = pad_sequence([torch.tensor([codes[c] for c in line]) for line in lines], batch_first=True).to(device)
    model = Model(len(letters)).to(device)
    parameters = list(model.parameters())
    optimizer = torch.optim.Adam(parameters, lr=2e-3, fused=True)
    for epoch in range(EPOCHS):
        begun = time.perf_counter()
        total = torch.zeros((), device=device)
        batches = torch.randperm(len(lines)).split(BATCH)
        for batch in batches:
            rows = tokens[batch.to(device), : int(lengths[batch].max())]
            optimizer.zero_grad()
            hidden, _ = model.lstm(model.embedding(rows[:, :-1]))
            target = rows[:, 1:].reshape(-1)
            loss = nn.functional.cross_entropy(model.head(hidden).flatten(0, 1), target, ignore_index=0)
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True)
            optimizer.step()
            total += loss.detach()
        mean = total.item() / len(batches)
        seconds = time.perf_counter() - begun
        print(f"epoch {epoch + 1}: loss {mean:.4f}, {len(lines)} samples in {seconds:.3f} s")


if __name__ == "__main__":
    main()

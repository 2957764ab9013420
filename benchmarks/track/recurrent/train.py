"""A recurrent net over lines of a play: variable lengths, padded batch by batch and packed."""

import argparse
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset

NUM_LINES, BATCH, EPOCHS = 6000, 32, 3


def load(folder):
    path = Path(folder) / "tinyshakespeare" / "input.txt"
    if path.is_file():
        text = path.read_text(encoding="utf-8")
    else:
        from pydoc_data import topics

        print(f"{path} is missing (say where the data are with --data DIR); using the texts of Python's help()")
        text = "\n".join(topics.topics.values())
    return [line for line in text.splitlines() if len(line) > 4][:NUM_LINES]


class Lines(Dataset):
    def __init__(self, lines):
        self.lines = lines
        self.letters = sorted({letter for line in lines for letter in line})

    def __len__(self):
        return len(self.lines)

    def __getitem__(self, index):
        return torch.tensor([self.letters.index(letter) + 1 for letter in self.lines[index]])


def collate(lines):
    lengths = torch.tensor([len(line) - 1 for line in lines])
    padded = pad_sequence(lines, batch_first=True)
    return padded[:, :-1], padded[:, 1:], lengths


class Model(nn.Module):
    def __init__(self, num_letters):
        super().__init__()
        self.embedding = nn.Embedding(num_letters + 1, 48, padding_idx=0)
        self.lstm = nn.LSTM(48, 96, batch_first=True)
        self.head = nn.Linear(96, num_letters + 1)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(self.embedding(x), lengths.cpu(), batch_first=True, enforce_sorted=False)
        out, _ = self.lstm(packed)
        out, _ = pad_packed_sequence(out, batch_first=True)
        return self.head(out)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="../shared/data")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    lines = Lines(load(args.data))
    loader = DataLoader(lines, batch_size=BATCH, shuffle=True, collate_fn=collate)
    model = Model(len(lines.letters)).to(device)
    criterion = nn.CrossEntropyLoss(ignore_index=0)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(EPOCHS):
        begun = time.perf_counter()
        total = 0.0
        for x, y, lengths in loader:
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            out = model(x, lengths)
            loss = criterion(out.reshape(-1, out.size(-1)), y[:, : out.size(1)].reshape(-1))
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += loss.item()
        seconds = time.perf_counter() - begun
        print(f"epoch {epoch + 1}: loss {total / len(loader):.4f}, {len(lines)} samples in {seconds:.3f} s")


if __name__ == "__main__":
    main()

"""Digits as sequences of rows of varying length, a GRU, Adam, gradients accumulated over two batches and clipped."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader

ACCUMULATE = 2


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(8, 24)
        self.dropout = nn.Dropout(0.1)
        self.gru = nn.GRU(24, 32, batch_first=True)
        self.head = nn.Linear(32, 10)

    def forward(self, rows, lengths):
        rows = self.dropout(torch.tanh(self.embed(rows)))
        packed = pack_padded_sequence(rows, lengths, batch_first=True, enforce_sorted=False)
        _, last = self.gru(packed)
        return self.head(last[0])


def collate(items):
    rows = [row for row, _ in items]
    lengths = torch.tensor([len(row) for row in rows])
    return pad_sequence(rows, batch_first=True), lengths, torch.tensor([label for _, label in items])


def train_one_epoch(model, loader, optimizer):
    model.train()
    optimizer.zero_grad()
    for number, (rows, lengths, labels) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(rows, lengths), labels) / ACCUMULATE
        loss.backward()
        if (number + 1) % ACCUMULATE == 0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.3)
            optimizer.step()
            optimizer.zero_grad()


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    return sum((model(rows, lengths).argmax(1) == labels).sum().item() for rows, lengths, labels in loader)


def main():
    torch.manual_seed(7)
    images, labels = load_digits(return_X_y=True)
    rows = torch.tensor(images, dtype=torch.float32).view(-1, 8, 8) / 16
    # The last rows of some digits are missing.
    items = [(rows[k, : 8 - k % 4], int(labels[k])) for k in range(len(rows))]
    train_loader = DataLoader(items[:1500], batch_size=10, shuffle=True, collate_fn=collate)
    val_loader = DataLoader(items[1500:], batch_size=99, collate_fn=collate)
    model = Reader()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.8)
    for epoch in range(8):
        train_one_epoch(model, train_loader, optimizer)
        scheduler.step()
        print(epoch, evaluate(model, val_loader))


main()

"""A small transformer over the characters of a licence text: AdamW with warm-up, clipped gradients."""

import math
import sys
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

CONTEXT = 32


class Text(Dataset):
    def __init__(self, tokens):
        self.tokens = tokens

    def __len__(self):
        return (len(self.tokens) - 1) // CONTEXT

    def __getitem__(self, index):
        chunk = self.tokens[index * CONTEXT : (index + 1) * CONTEXT + 1]
        return chunk[:-1], chunk[1:]


class Model(nn.Module):
    def __init__(self, vocabulary, width=48):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.position = nn.Parameter(0.02 * torch.randn(CONTEXT, width))
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.1, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(CONTEXT))

    def forward(self, x):
        h = self.embed(x) + self.position
        return self.head(self.norm(self.encoder(h, mask=self.mask, is_causal=True)))


torch.manual_seed(1337)
text = (Path(__file__).resolve().parents[3] / "LICENSE").read_text(encoding="utf-8")
letters = sorted(set(text))
tokens = torch.tensor([letters.index(c) for c in text])
cut = int(0.9 * len(tokens))
train_loader = DataLoader(Text(tokens[:cut]), batch_size=8, shuffle=True)
val_loader = DataLoader(Text(tokens[cut:]), batch_size=32)
model = Model(len(letters))
decayed = [p for p in model.parameters() if p.dim() >= 2]
others = [p for p in model.parameters() if p.dim() < 2]
groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
optimizer = torch.optim.AdamW(groups, lr=2e-3, betas=(0.9, 0.95))
num_steps, warmup = 12 * len(train_loader), 30


def factor(step):
    if step < warmup:
        return (step + 1) / warmup
    return 0.1 + 0.45 * (1 + math.cos(math.pi * (step - warmup) / (num_steps - warmup)))


schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
for epoch in range(12):
    model.train()
    for x, y in train_loader:
        logits = model(x)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        schedule.step()
    model.eval()
    with torch.no_grad():
        held_out = [nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten()).item() for x, y in val_loader]
    print(f"epoch {epoch} train {loss.item():.3f} val {sum(held_out) / len(held_out):.3f}", file=sys.stderr)

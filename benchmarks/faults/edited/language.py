"""A small transformer with tied weights, padding, accumulation, clipping, warm-up and an averaged copy of the weights."""

import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

WORDS, WIDTH, PAD, ACCUMULATE = 40, 32, 0, 2


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.a, self.b = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, WIDTH))
        self.drop = nn.Dropout(0.1)

    def forward(self, x, mask):
        q, k, v = (part.unflatten(-1, (2, -1)).transpose(1, 2) for part in self.qkv(self.a(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.drop(self.out(y.transpose(1, 2).flatten(-2)))
        return x + self.drop(self.mlp(self.b(x)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(24, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.words.weight

    def forward(self, words):
        length = words.shape[1]
        causal = torch.ones(length, length, dtype=torch.bool).tril()
        mask = causal & (words != PAD)[:, None, None, :]
        mask = mask | torch.eye(length, dtype=torch.bool)
        x = self.words(words) + self.places(torch.arange(length))
        for block in self.blocks:
            x = block(x, mask)
        return self.head(self.norm(x))


def sentence():
    words = [int(torch.randint(1, WORDS, ()))]
    for _ in range(int(torch.randint(4, 18, ()))):
        words.append((3 * words[-1] + int(torch.randint(0, 3, ()))) % (WORDS - 1) + 1)
    return torch.tensor(words)


def collate(items):
    return pad_sequence(items, batch_first=True, padding_value=PAD)


torch.manual_seed(8)
loader = DataLoader([sentence() for _ in range(1610)], batch_size=8, shuffle=True, collate_fn=collate)
val_loader = DataLoader([sentence() for _ in range(100)], batch_size=50, collate_fn=collate)
model = Model()
ema = copy.deepcopy(model).eval().requires_grad_(False)
decayed = [p for p in model.parameters() if p.dim() > 1]
other = [p for p in model.parameters() if p.dim() < 2]
optimizer = torch.optim.AdamW(
    [{"params": decayed, "weight_decay": 0.1}, {"params": other, "weight_decay": 0.0}], lr=3e-3
)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 50))
for epoch in range(8):
    model.train()
    for k, words in enumerate(loader):
        out = model(words[:, :-1])
        loss = F.cross_entropy(out.flatten(0, 1), words[:, 1:].flatten(), ignore_index=PAD) / ACCUMULATE
        loss.backward()
        if (k + 1) % ACCUMULATE == 0:
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            optimizer.zero_grad()
            scheduler.step()
            with torch.no_grad():
                for mean, p in zip(ema.parameters(), model.parameters()):
                    mean.mul_(0.95).add_(p, alpha=0.05)
    with torch.no_grad():
        losses = [
            F.cross_entropy(ema(w[:, :-1]).flatten(0, 1), w[:, 1:].flatten(), ignore_index=PAD) for w in val_loader
        ]
    print(f"epoch {epoch}: {sum(losses).item() / 2:.4f}")

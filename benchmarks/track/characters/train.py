"""A small GPT over characters, attention written out, batches cut from the text by hand, no DataLoader."""

import argparse
import math
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

CONTEXT, BATCH, WIDTH, HEADS, LAYERS = 64, 12, 128, 4, 4
ROUNDS, STEPS_A_ROUND = 5, 100


def load(folder):
    path = Path(folder) / "tinyshakespeare" / "input.txt"
    if path.is_file():
        return path.read_text(encoding="utf-8")
    from pydoc_data import topics

    print(f"{path} is missing (say where the data are with --data DIR); using the texts of Python's help()")
    return "\n".join(topics.topics.values())


class CausalSelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("mask", torch.tril(torch.ones(CONTEXT, CONTEXT)).view(1, 1, CONTEXT, CONTEXT))

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = self.qkv(x).split(WIDTH, dim=2)
        q = q.view(b, t, HEADS, c // HEADS).transpose(1, 2)
        k = k.view(b, t, HEADS, c // HEADS).transpose(1, 2)
        v = v.view(b, t, HEADS, c // HEADS).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf"))
        att = F.softmax(att, dim=-1)
        y = (att @ v).transpose(1, 2).contiguous().view(b, t, c)
        return self.proj(y)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attn = CausalSelfAttention()
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary):
        super().__init__()
        self.wte = nn.Embedding(vocabulary, WIDTH)
        self.wpe = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.ln_f = nn.LayerNorm(WIDTH)
        self.lm_head = nn.Linear(WIDTH, vocabulary, bias=False)

    def forward(self, idx, targets):
        pos = torch.arange(idx.size(1), device=idx.device)
        logits = self.lm_head(self.ln_f(self.blocks(self.wte(idx) + self.wpe(pos))))
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="../shared/data")
    args = parser.parse_args()
    torch.manual_seed(1337)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    text = load(args.data)
    chars = sorted(set(text))
    stoi = {c: i for i, c in enumerate(chars)}
    data = torch.tensor([stoi[c] for c in text], dtype=torch.long)

    def get_batch():
        ix = torch.randint(len(data) - CONTEXT, (BATCH,))
        x = torch.stack([data[i : i + CONTEXT] for i in ix])
        y = torch.stack([data[i + 1 : i + 1 + CONTEXT] for i in ix])
        return x.to(device), y.to(device)

    model = GPT(len(chars)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1, betas=(0.9, 0.99))
    for part in range(ROUNDS):
        begun = time.perf_counter()
        total = 0.0
        for _ in range(STEPS_A_ROUND):
            x, y = get_batch()
            loss = model(x, y)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += loss.item()
        seconds, count = time.perf_counter() - begun, STEPS_A_ROUND * BATCH
        print(f"epoch {part + 1}: loss {total / STEPS_A_ROUND:.4f}, {count} samples in {seconds:.3f} s")


if __name__ == "__main__":
    main()

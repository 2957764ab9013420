"""Transformer-XL as NVIDIA's examples train it -> operations and bytes of a token, for `measurements.LAMBDA`.

    PYTHONPATH=src python benchmarks/predict/transformer_xl.py

Traced without data. Attention is written out, with relative positions and as many tokens remembered as are read; the
loss is an adaptive softmax over WikiText-103's words, in which a tenth of the tokens reach the rare ones.
"""

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional

from hotlap.predict import Workload, trace

VOCABULARY, CUTOFFS = 267735, (0, 19997, 39997, 199997, 267735)
# Part of the tokens that each rarer cluster is asked for.
TAILS = (0.04, 0.06, 0.02)
# Layers, width, heads, width of the feed-forward layer, tokens.
SIZES = {"transformerxlbase": (16, 512, 8, 2048, 192), "transformerxllarge": (18, 1024, 16, 4096, 128)}
HEAD = 64


class Attention(nn.Module):
    """(T, B, C) with a memory of (M, B, C) -> (T, B, C)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, inner = heads, heads * HEAD
        self.qkv, self.places = nn.Linear(width, 3 * inner, bias=False), nn.Linear(width, inner, bias=False)
        self.out, self.norm = nn.Linear(inner, width, bias=False), nn.LayerNorm(width)
        self.by_content, self.by_place = (nn.Parameter(torch.empty(heads, HEAD)) for _ in range(2))

    def forward(self, x: torch.Tensor, memory: torch.Tensor, places: torch.Tensor, ahead: torch.Tensor) -> torch.Tensor:
        together = torch.cat([memory, x])
        (length, batch, _), reached = x.shape, len(together)
        q, k, v = (part.unflatten(-1, (self.heads, HEAD)) for part in self.qkv(together).chunk(3, -1))
        q, r = q[-length:], self.places(places).unflatten(-1, (self.heads, HEAD))
        content = torch.einsum("ibnd,jbnd->bnij", q + self.by_content, k)
        place = torch.einsum("ibnd,jnd->bnij", q + self.by_place, r)
        padded = torch.cat([place.new_zeros(batch, self.heads, length, 1), place], 3)
        place = padded.view(batch, self.heads, reached + 1, length)[:, :, 1:].reshape(
            batch, self.heads, length, reached
        )
        scores = ((content + place) * HEAD**-0.5).masked_fill(ahead, -65504.0).softmax(-1)
        mixed = torch.einsum("bnij,jbnd->ibnd", scores, v).flatten(-2)
        return self.norm(x + functional.dropout(self.out(mixed), 0.1))


class Feed(nn.Module):
    """(T, B, C) -> (T, B, C)."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(width, inner), nn.ReLU(), nn.Dropout(0.1), nn.Linear(inner, width), nn.Dropout(0.1)
        )
        self.norm = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x + self.body(x))


class Model(nn.Module):
    """(T, B) words and a memory for each layer -> loss."""

    def __init__(self, layers: int, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.words, self.rare = nn.Embedding(VOCABULARY, width), nn.Parameter(torch.empty(len(TAILS), width))
        self.layers = nn.ModuleList(nn.ModuleList([Attention(width, heads), Feed(width, inner)]) for _ in range(layers))
        self.bias = nn.Parameter(torch.empty(VOCABULARY))

    def forward(self, words: torch.Tensor, memories: Sequence[torch.Tensor]) -> torch.Tensor:
        x = functional.dropout(self.words(words), 0.1)
        reached = len(words) + len(memories[0])
        places = torch.empty(reached, x.shape[-1], device=x.device)
        ahead = torch.empty(len(words), reached, dtype=torch.bool, device=x.device)
        for memory, (attention, feed) in zip(memories, self.layers, strict=True):
            x = feed(attention(x, memory, places, ahead))
        found, table = functional.dropout(x, 0.1).flatten(0, 1), self.words.weight
        labels = words.flatten() % 100
        first = torch.cat([table[: CUTOFFS[1]], self.rare])
        logits = functional.linear(found, first, torch.cat([self.bias[: CUTOFFS[1]], self.bias[: len(TAILS)]]))
        loss = functional.cross_entropy(logits, labels)
        for share, low, high in zip(TAILS, CUTOFFS[1:-1], CUTOFFS[2:], strict=True):
            some = max(1, int(share * len(found)))
            logits = functional.linear(found[:some], table[low:high], self.bias[low:high])
            loss = loss + functional.cross_entropy(logits, labels[:some])
        return loss


def traced(sizes: Sequence[int], batch: int) -> Workload:
    """Forward and backward of `batch` sequences."""
    layers, width, heads, inner, length = sizes
    with torch.device("meta"):
        net, words = Model(layers, width, heads, inner), torch.empty(length, batch, dtype=torch.long)
        memories = [torch.empty(length, batch, width) for _ in range(layers)]
    return trace.record(lambda: net(words, memories).backward(), parameters=net.parameters())


def main() -> None:
    for name, sizes in SIZES.items():
        # What each further sequence adds: parameters move once, whatever the batch.
        few, more = traced(sizes, 8), traced(sizes, 16)
        tokens = 8 * sizes[-1]
        flop, moved = more.flop - few.flop, more.memory_bytes - few.memory_bytes
        print(f"{name}: {flop / tokens:.3g} operations, {moved / tokens:.3g} bytes a token, {few.num_kernels} kernels")


if __name__ == "__main__":
    main()

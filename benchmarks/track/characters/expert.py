"""The GPT by hand: fused attention, fused AdamW, batches by one gather; compiled and in bfloat16 on a GPU."""

import argparse
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from train import BATCH, CONTEXT, GPT, HEADS, ROUNDS, STEPS_A_ROUND, WIDTH, load


def attention(self, x):
    b, t, c = x.size()
    q, k, v = self.qkv(x).view(b, t, 3, HEADS, c // HEADS).permute(2, 0, 3, 1, 4)
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return self.proj(y.transpose(1, 2).reshape(b, t, WIDTH))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="../shared/data")
    args = parser.parse_args()
    torch.manual_seed(1337)
    torch.set_float32_matmul_precision("high")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    letters, codes = np.unique(np.array(list(load(args.data))), return_inverse=True)
    data = torch.from_numpy(codes).to(device)
    window = torch.arange(CONTEXT + 1, device=device)
    model = GPT(len(letters)).to(device)
    for block in model.blocks:
        block.attn.forward = attention.__get__(block.attn)
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.1, betas=(0.9, 0.99), fused=True)
    forward = torch.compile(model) if device == "cuda" else model
    for part in range(ROUNDS):
        begun = time.perf_counter()
        total = torch.zeros((), device=device)
        for _ in range(STEPS_A_ROUND):
            start = torch.randint(len(data) - CONTEXT, (BATCH, 1), device=device)
            rows = data[start + window]
            with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
                loss = forward(rows[:, :-1], rows[:, 1:].contiguous())
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True)
            optimizer.step()
            total += loss.detach()
        mean = total.item() / STEPS_A_ROUND
        seconds, count = time.perf_counter() - begun, STEPS_A_ROUND * BATCH
        print(f"epoch {part + 1}: loss {mean:.4f}, {count} samples in {seconds:.3f} s")


if __name__ == "__main__":
    main()

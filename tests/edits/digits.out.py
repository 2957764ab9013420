#!/usr/bin/env python
"""Digits."""
from __future__ import annotations

import torch
from hotlap.data import cached
from torch.utils.data import DataLoader  # the loader

torch.set_num_threads(1)


def main(train, model, loss_fn):
    # shuffle, as one does
    loader = DataLoader(cached(train), batch_size=64, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)  # default betas
    for x, y in loader:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = model(x).float()  # forward
        loss_fn(out, y).backward()
        optimizer.step()


# edit: wrap DataLoader 0 dataset cached | from hotlap.data import cached
# edit: add Adam fused=True
# edit: statement model | with torch.autocast("cpu", dtype=torch.bfloat16) | .float() | import torch
# edit: after torch.set_num_threads(1) | import torch

#!/usr/bin/env python
"""Digits."""
from __future__ import annotations

import torch
from torch.utils.data import DataLoader  # the loader


def main(train, model, loss_fn):
    # shuffle, as one does
    loader = DataLoader(train, batch_size=64, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)  # default betas
    for x, y in loader:
        out = model(x)  # forward
        loss_fn(out, y).backward()
        optimizer.step()


# edit: wrap DataLoader 0 dataset cached | from hotlap.data import cached
# edit: add Adam fused=True
# edit: statement model | with torch.autocast("cpu", dtype=torch.bfloat16) | .float() | import torch
# edit: after torch.set_num_threads(1) | import torch

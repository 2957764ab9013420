#!/usr/bin/env python
# coding: utf-8

# Where it starts.
import torch

torch.set_num_threads(1)

x = 1
with torch.no_grad():
    y = model(x)
# edit: after torch.set_num_threads(1) | import torch
# edit: statement model | with torch.no_grad() | | import torch

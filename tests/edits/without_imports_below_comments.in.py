#!/usr/bin/env python
# coding: utf-8

# Where it starts.
x = 1
y = model(x)
# edit: after torch.set_num_threads(1) | import torch
# edit: statement model | with torch.no_grad() | | import torch

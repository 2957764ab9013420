import torch

out = model(embed(x))
all_of_it = model(part(x) for x in xs)
last = model(x, mask=embed(x))
# edit: wrap model 0 input cached | from hotlap.data import cached
# edit: statement embed | with torch.no_grad() | .float() | import torch
# edit: add model fast=True

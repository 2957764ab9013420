import torch
from hotlap.data import cached

with torch.no_grad():
    out = model(cached(embed(x).float()), fast=True)
all_of_it = model(cached(part(x) for x in xs), fast=True)
with torch.no_grad():
    last = model(cached(x), mask=embed(x).float(), fast=True)
# edit: wrap model 0 input cached | from hotlap.data import cached
# edit: statement embed | with torch.no_grad() | .float() | import torch
# edit: add model fast=True

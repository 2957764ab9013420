import torch
from hotlap.data import cached

with torch.no_grad():
    with torch.autocast("cpu"):
        out = model(
            x,
            cached(y),
            fast=True,
        ).float()
# edit: statement model | with torch.no_grad() | | import torch
# edit: statement model | with torch.autocast("cpu") | .float() | import torch
# edit: add model fast=True
# edit: wrap model 1 mask cached | from hotlap.data import cached

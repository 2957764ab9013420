import sys

try:
    import torch
except ImportError:
    sys.exit("PyTorch is needed: pip install torch")

from hotlap.data import cached

torch.set_num_threads(1)

loader = torch.utils.data.DataLoader(cached(Net()))
# edit: wrap DataLoader 0 dataset cached | from hotlap.data import cached
# edit: after torch.set_num_threads(1) | import torch

import sys

try:
    import torch
except ImportError:
    sys.exit("PyTorch is needed: pip install torch")

loader = torch.utils.data.DataLoader(Net())
# edit: wrap DataLoader 0 dataset cached | from hotlap.data import cached
# edit: after torch.set_num_threads(1) | import torch

# torch cannot be loaded a second time; parts of it can.
import importlib
import sys

from torch import nn

import torch

try:
    importlib.reload(torch)
except RuntimeError as error:
    assert "TORCH_LIBRARY" in str(error)
importlib.reload(sys.modules["torch.optim.sgd"])

import loop

loop.train()
assert nn is torch.nn

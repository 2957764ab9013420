"""What is added goes among the imports of other packages, in their order."""

import os
import sys

import numpy as np
import torch
from datasets import load_dataset
from hotlap.data import cached
from hotlap.recurrent import padded_recurrent
from hotlap.small import native_steps
# the loader
from torch.utils.data import DataLoader

from .model import Net
from .tools import padded

a = DataLoader(cached(train))
b = Solver(native_steps(Net()))
torch.optim.Adam(padded_recurrent(padded))
# edit: wrap DataLoader 0 dataset cached | from hotlap.data import cached
# edit: wrap Solver 0 model native_steps | from hotlap.small import native_steps
# edit: wrap Adam 0 params padded_recurrent | from hotlap.recurrent import padded_recurrent

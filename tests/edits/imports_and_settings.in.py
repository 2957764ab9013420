# Copyright: nobody.

import os
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import sys
sys.path.append("..")
if os.name == "nt":
    import ntpath
import torch
torch.manual_seed(0)
import numpy

loader = torch.utils.data.DataLoader(train)
import matplotlib
# edit: after torch.set_num_threads(1) | import torch
# edit: wrap DataLoader 0 dataset cached | from hotlap.data import cached

import torch
from torch import autograd
from torch.autograd import set_detect_anomaly

torch.autograd.set_detect_anomaly(False)  # why?
with torch.autograd.set_detect_anomaly(False):
    pass
torch.autograd.set_detect_anomaly(False)
# edit: call set_detect_anomaly | torch.autograd.set_detect_anomaly(False) | import torch

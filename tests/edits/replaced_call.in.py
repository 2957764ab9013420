from torch import autograd
from torch.autograd import set_detect_anomaly

set_detect_anomaly(True)  # why?
with autograd.set_detect_anomaly(
    True,
):
    pass
set_detect_anomaly(False)
# edit: call set_detect_anomaly | torch.autograd.set_detect_anomaly(False) | import torch

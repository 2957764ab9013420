import torch as th

th.set_num_threads(1)

with th.autocast("cpu", dtype=th.bfloat16):
    y = model(x).float()
# edit: statement model | with torch.autocast("cpu", dtype=torch.bfloat16) | .float() | import torch
# edit: after torch.set_num_threads(1) | import torch

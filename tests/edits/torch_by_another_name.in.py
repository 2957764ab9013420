import torch as th

y = model(x)
# edit: statement model | with torch.autocast("cpu", dtype=torch.bfloat16) | .float() | import torch
# edit: after torch.set_num_threads(1) | import torch

import torch


[0 for model(x).y in z]


# edit: statement model | with torch.autocast("cpu", dtype=torch.bfloat16) | .float() | import torch
# refused: the call is in the target of an assignment

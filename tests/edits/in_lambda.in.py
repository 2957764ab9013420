import torch


f = lambda x: model(x)


# edit: statement model | with torch.autocast("cpu", dtype=torch.bfloat16) | .float() | import torch
# refused: the call is in a lambda

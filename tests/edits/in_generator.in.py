import torch


f = (model(x) for x in xs)


# edit: statement model | with torch.autocast("cpu", dtype=torch.bfloat16) | .float() | import torch
# refused: the call is in a generator expression

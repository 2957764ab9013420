import torch


with model(x) as y:
    pass


# edit: statement model | with torch.autocast("cpu", dtype=torch.bfloat16) | .float() | import torch
# refused: the call is in the header of a compound statement

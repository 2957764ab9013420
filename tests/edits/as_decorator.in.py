import torch


@model(1)
def f(): ...


# edit: statement model | with torch.autocast("cpu", dtype=torch.bfloat16) | .float() | import torch
# refused: the call is a decorator

import torch


def f(x):
    y = yield model(x)


# edit: statement model | with torch.autocast("cpu", dtype=torch.bfloat16) | .float() | import torch
# refused: gives up control

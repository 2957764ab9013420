import torch

a = 1
out = model(
    x,
)
b = 2
# edit: statement model | with torch.no_grad() | .float() | import torch
# edit: before model | model.flag = True |

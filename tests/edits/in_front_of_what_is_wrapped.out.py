import torch

a = 1
model.flag = True
with torch.no_grad():
    out = model(
        x,
    ).float()
b = 2
# edit: statement model | with torch.no_grad() | .float() | import torch
# edit: before model | model.flag = True |

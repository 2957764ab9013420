import torch

with torch.no_grad():
    print(f"{model(x).float()!r:>{width}} and {x}")
# edit: statement model | with torch.no_grad() | .float() | import torch

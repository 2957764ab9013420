import torch

print(f"{model(x)!r:>{width}} and {x}")
# edit: statement model | with torch.no_grad() | .float() | import torch

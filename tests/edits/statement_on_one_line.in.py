import torch

for _ in range(2): b = model(x)
# edit: statement model | with torch.no_grad() | .float() | import torch
# refused: the call is in a statement that has no line of its own; give it one

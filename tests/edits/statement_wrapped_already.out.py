import torch

with torch.no_grad(), torch.autocast( 'cpu', dtype = torch.bfloat16 ):
    for x in xs:
        y = model(x).float()
# edit: statement model | with torch.autocast("cpu", dtype=torch.bfloat16) | .float() | import torch

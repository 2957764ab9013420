import torch

if True: optimizer = torch.optim.Adam(model.parameters())
# edit: before Adam | model.compile() |

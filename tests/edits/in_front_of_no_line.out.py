import torch

if True: model.compile(); optimizer = torch.optim.Adam(model.parameters())
# edit: before Adam | model.compile() |

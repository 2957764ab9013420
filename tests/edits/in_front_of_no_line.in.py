import torch

if True: optimizer = torch.optim.Adam(model.parameters())
# edit: before Adam | model.compile() |
# refused: the call is in a statement that has no line of its own

import torch


def made(model):
    return [torch.optim.Adam(part.parameters()) for part in model], lambda: torch.optim.SGD(model.parameters())
# edit: before SGD | model.compile() |
# refused: the call is in no statement of its own

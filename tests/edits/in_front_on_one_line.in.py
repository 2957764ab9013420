import torch


def main(model):
    model.train(); \
        optimizer = torch.optim.Adam(model.parameters())
# edit: before Adam | model.compile() |
# refused: the call is in a statement that has no line of its own; give it one

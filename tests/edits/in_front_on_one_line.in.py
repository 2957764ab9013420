import torch


def main(model):
    model.train(); \
        optimizer = torch.optim.Adam(model.parameters())
# edit: before Adam | model.compile() |

import torch


def main(model):
    model.train(); \
        model.compile(); optimizer = torch.optim.Adam(model.parameters())
# edit: before Adam | model.compile() |

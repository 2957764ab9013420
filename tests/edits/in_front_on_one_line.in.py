import torch

model = Net(); optimizer = torch.optim.Adam(model.parameters()); losses = []


def main(model):
    if model:
        model.train() ; optimizer = torch.optim.Adam(
            model.parameters(),
        ); other = torch.optim.Adam(model.parameters())  # both
        model.compile(); \
            last = torch.optim.Adam(model.parameters())
        model = 3; made = torch.optim.Adam(model.parameters()); return made
# edit: before Adam | model.compile() |

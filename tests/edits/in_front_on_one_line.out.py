import torch

model = Net()
model.compile()
optimizer = torch.optim.Adam(model.parameters()); losses = []


def main(model):
    if model:
        model.train()
        model.compile()
        optimizer = torch.optim.Adam(
            model.parameters(),
        )
        model.compile()
        other = torch.optim.Adam(model.parameters())  # both
        model.compile(); \
            last = torch.optim.Adam(model.parameters())
        model = 3; made = torch.optim.Adam(model.parameters()); return made
# edit: before Adam | model.compile() |

import torch


def main(model):
    # the usual one
    optimizer = torch.optim.Adam(
        model.parameters(),
    )
    if optimizer: second = 1; x = 2
    return optimizer


class Trainer:
	def __init__(self, model): # tabs
		self.optimizer = torch.optim.Adam(model.parameters())
# edit: before Adam | model.to(memory_format=torch.channels_last) | import torch
# edit: before Adam | model.compile() |

import torch
from torch.nn.parallel import DistributedDataParallel


def main(model, several):
    if several:
        model = DistributedDataParallel(
            model,
        )  # on its own device
    second = DistributedDataParallel(model)
    return model, second


class Trainer:
	def __init__(self, model): # tabs
		self.model = DistributedDataParallel(model);


last = DistributedDataParallel(torch.nn.Linear(2, 2))
# edit: behind DistributedDataParallel | print(hook) | from torch.hooks import hook
# edit: add DistributedDataParallel bucket_cap_mb=5

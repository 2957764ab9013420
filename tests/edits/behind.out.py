import torch
from torch.hooks import hook
from torch.nn.parallel import DistributedDataParallel


def main(model, several):
    if several:
        model = DistributedDataParallel(
            model,
            bucket_cap_mb=5,
        )  # on its own device
        print(hook)
    second = DistributedDataParallel(model, bucket_cap_mb=5)
    print(hook)
    return model, second


class Trainer:
	def __init__(self, model): # tabs
		self.model = DistributedDataParallel(model, bucket_cap_mb=5);
		print(hook)


last = DistributedDataParallel(torch.nn.Linear(2, 2), bucket_cap_mb=5)
print(hook)
# edit: behind DistributedDataParallel | print(hook) | from torch.hooks import hook
# edit: add DistributedDataParallel bucket_cap_mb=5

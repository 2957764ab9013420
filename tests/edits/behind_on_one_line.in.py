from torch.nn.parallel import DistributedDataParallel

second = DistributedDataParallel(model); third = second
# edit: behind DistributedDataParallel | print(3) |
# refused: the call is in a statement that has no line of its own; give it one

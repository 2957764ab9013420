from torch.nn.parallel import DistributedDataParallel
# edit: behind DistributedDataParallel | model.train() |
model = DistributedDataParallel(net)
model.train()
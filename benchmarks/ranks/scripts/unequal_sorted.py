"""unequal-work: the samples are sorted by length and cut into shards, so that the last rank has all long ones."""

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from ranks import STEPS, start, update

rank = start()
lengths = torch.randint(8, 384, (4096,), generator=torch.Generator().manual_seed(0)).sort().values
world = torch.distributed.get_world_size()
shard = lengths.chunk(world)[rank].tolist()


def padded(batch):
    return torch.randint(1000, (len(batch), max(batch)))


model = nn.Sequential(nn.Embedding(1000, 128), nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 128))
model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(STEPS):
    for batch in DataLoader(shard, batch_size=16, collate_fn=padded):
        update(model, optimizer, batch)

"""`sizes.py LINK LAYERS BATCH ROUNDS SIZE ...`: the training of `training.py` with each bucket size, in turns.

SIZE is in MB; 0 leaves it to torch. The last line is JSON: size -> seconds of a step, one for each round.
"""

import json
import sys
import time
from itertools import islice

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from hotlap.record import order
from ranks import learn, link, perceptron, start

STEPS = 5
# Behind a switch caches know nothing of the model; and in its first two steps DDP rebuilds its buckets.
DISCARDED = 2

name, layers, batch, rounds, *sizes = sys.argv[1:]
rank, group = start(), link(name)
models = [
    DistributedDataParallel(perceptron(int(layers)), process_group=group, bucket_cap_mb=int(size) or None)
    for size in sizes
]
optimizers = [torch.optim.Adam(model.parameters()) for model in models]
times: dict[str, list[float]] = {size: [] for size in sizes}
# The same order in all processes.
for each in islice(order.rounds(len(sizes), seed=0), int(rounds)):
    for at in each:
        for _ in range(DISCARDED):
            learn(models[at], optimizers[at], int(batch))
        begin = time.perf_counter()
        for _ in range(STEPS):
            learn(models[at], optimizers[at], int(batch))
        times[sizes[at]].append((time.perf_counter() - begin) / STEPS)
if rank == 0:
    print(json.dumps(times))
dist.barrier()
dist.destroy_process_group()

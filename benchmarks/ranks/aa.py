"""How often does a study of two equal jobs claim a gain? Fifty live studies of a training by two processes.

As `benchmarks/aa.py`, which it uses; jobs are whole or not at all, so nothing is switched within one. The processes
meet over an emulated link of 10 Gbit/s. `python benchmarks/ranks/aa.py [STUDIES [--more]]`.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import aa

STUDIES = 50

SCRIPT = """
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, SCRIPTS)
from emulated_link import SPEEDS, EmulatedLink


def train(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    layers = nn.Sequential(*(part for _ in range(4) for part in (nn.Linear(384, 384), nn.ReLU())))
    model = DistributedDataParallel(layers, process_group=EmulatedLink(SPEEDS["10-gbit"]))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    while True:
        optimizer.zero_grad()
        model(torch.randn(64, 384)).square().mean().backward()
        optimizer.step()


if __name__ == "__main__":
    mp.start_processes(train, args=(f"{tempfile.mkdtemp()}/store",), nprocs=2, start_method="fork")
""".replace("SCRIPTS", repr(str(Path(__file__).resolve().parent / "scripts")))


if __name__ == "__main__":
    aa.several("ranks_aa", "equal jobs of two processes", studies=STUDIES, script=SCRIPT, scopes=("process",))

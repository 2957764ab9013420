"""A data-parallel training of as many processes as torchrun starts, over NCCL on GPUs of their own, else over gloo."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def main():
    rank, count = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
    own = count >= int(os.environ["LOCAL_WORLD_SIZE"])
    device = torch.device("cuda", rank % count) if count else torch.device("cpu")
    if count:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if own else "gloo")
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(4096, 256), torch.randint(10, (4096,)))
    sampler = DistributedSampler(data, shuffle=True, drop_last=True)
    loader = DataLoader(data, batch_size=64, sampler=sampler, drop_last=True)
    net = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10)).to(device)
    net = DistributedDataParallel(net, device_ids=[device.index] if count else None)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    criterion = torch.nn.CrossEntropyLoss()
    for epoch in range(30):
        sampler.set_epoch(epoch)
        total = 0.0
        for x, y in loader:
            inputs, target = x.to(device), y.to(device)
            optimizer.zero_grad()
            loss = criterion(net(inputs), target)
            loss.backward()
            optimizer.step()
            total += loss.item()
        if rank == 0:
            print(f"epoch {epoch}: loss {total / len(loader):.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

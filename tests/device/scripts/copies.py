"""Every batch is copied from pageable memory, as scripts commonly do it."""

import torch
from torch.utils.data import DataLoader, Dataset

import simulated_gpu  # noqa: F401

torch.set_num_threads(1)
device = torch.device("sim")


class Pairs(Dataset):
    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        return {"x": torch.ones(4000), "y": torch.ones(4000)}, torch.ones(4000)


def move(batch):
    return {name: part.to(device) for name, part in batch.items()}


def train_one_epoch(batches):
    for pair, weights in batches:
        batch, z = move(pair), weights.to(device=device, dtype=torch.float32)
        optimizer.zero_grad()
        loss = model(batch["x"] + batch["y"] * z).sum()
        loss.backward()
        optimizer.step()


loader = DataLoader(Pairs(), batch_size=32)
model = torch.nn.Linear(4000, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
train_one_epoch(loader)

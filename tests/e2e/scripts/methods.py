# Workers by fork, spawn or forkserver, persistent or not, over the ends of epochs.
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

if __name__ == "__main__":
    method, persistent = sys.argv[1:]
    data = TensorDataset(torch.randn(100, 8), torch.randn(100, 1))
    loader = DataLoader(
        data,
        batch_size=4,
        shuffle=True,
        num_workers=1,
        multiprocessing_context=method,
        persistent_workers=persistent == "persistent",
    )
    model = nn.Linear(8, 1)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(8):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()

# Workers by fork, spawn and forkserver, persistent or not, each over the end of an epoch: each started worker of the
# last two imports torch, so that these have one of both.
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

if __name__ == "__main__":
    data = TensorDataset(torch.randn(40, 8), torch.randn(40, 1))
    model = nn.Linear(8, 1)
    optimizer = torch.optim.Adam(model.parameters())
    for method, persistent in (("fork", True), ("fork", False), ("spawn", False), ("forkserver", True)):
        loader = DataLoader(
            data,
            batch_size=4,
            shuffle=True,
            num_workers=1,
            multiprocessing_context=method,
            persistent_workers=persistent,
        )
        for _ in range(2):
            for x, y in loader:
                optimizer.zero_grad()
                nn.functional.mse_loss(model(x), y).backward()
                optimizer.step()

# The text of another script is put here (`Forks` in running.py). By itself it imports what most of them do.
import torch
import torch._functorch.aot_autograd
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for (x,) in DataLoader(TensorDataset(torch.randn(40, 4)), batch_size=4):
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()

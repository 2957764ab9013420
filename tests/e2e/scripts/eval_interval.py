# Batches are drawn by a function, and every 50th step begins with an evaluation, as in nanoGPT.
import torch
from torch import nn

torch.manual_seed(0)
data = torch.randn(1000, 8)
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def get_batch():
    x = data[torch.randint(len(data), (4,))]
    return x, x[:, :1]


@torch.no_grad()
def estimate_loss():
    model.eval()
    for _ in range(10):
        x, y = get_batch()
        nn.functional.mse_loss(model(x), y)
    model.train()


for step in range(100_000):
    if step % 50 == 0:
        estimate_loss()
    x, y = get_batch()
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

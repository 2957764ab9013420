# dropped.py: sequences with padding on a graph of places, and dropouts in front of whatever an edit may change; a
# teacher is given the same samples with noise of their own.
import torch
from torch import nn
from torch.nn import functional

torch.manual_seed(0)
torch.set_num_threads(1)
beside = (torch.rand(12, 12) < 0.3).float() + torch.eye(12)
norm = beside.sum(0).rsqrt()[:, None] * beside * beside.sum(1).rsqrt()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedded, self.told = nn.Linear(6, 16), nn.Linear(16, 6)
        self.queries, self.keys, self.values = (nn.Linear(16, 16) for _ in range(3))
        self.dropout = nn.Dropout(0.3)

    def forward(self, x):
        padding = (x == 0).all(-1)
        x = self.dropout(norm @ torch.tanh(self.embedded(x)))
        q, k, v = self.queries(x), self.keys(x), self.values(x)
        scores = q @ k.transpose(1, 2) / 4
        weights = scores.masked_fill(padding[:, None], float("-inf")).softmax(-1)
        return self.told(self.dropout(weights) @ v)


student, teacher = Net(), Net().requires_grad_(False)
optimizer = torch.optim.AdamW(student.parameters(), lr=0.01)
for _ in range(300):
    x = torch.randn(16, 12, 6)
    x[torch.arange(12) >= torch.randint(5, 13, (16, 1))] = 0
    real = (x != 0).float()
    noisy = x + 0.3 * torch.randn_like(x) * real
    with torch.no_grad():
        soft = teacher(x + 0.3 * torch.randn_like(x) * real)
    loss = functional.mse_loss(student(noisy), x.sin()) + 0.1 * functional.mse_loss(student(noisy), soft)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

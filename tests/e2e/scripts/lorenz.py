"""A neural ODE learns the Lorenz system, as in torchdiffeq's own examples."""

import torch
from torch import nn
from torchdiffeq import odeint

torch.manual_seed(0)


class Field(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 100), nn.Tanh(), nn.Linear(100, 3))

    def forward(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.net(y)


def lorenz(t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    a, b, c = y[..., 0], y[..., 1], y[..., 2]
    return torch.stack([10.0 * (b - a), a * (28.0 - c) - b, a * b - 8 / 3 * c], dim=-1)


y0, t = torch.tensor([1.0, 0.0, 0.0]), torch.linspace(0, 0.2, 21)
with torch.no_grad():
    target = odeint(lorenz, y0.double(), t.double(), rtol=1e-9, atol=1e-11).float()
field = Field()
optimizer = torch.optim.Adam(field.parameters(), lr=1e-3)
for _ in range(100_000):
    optimizer.zero_grad()
    loss = (odeint(field, y0, t, rtol=1e-3, atol=1e-6) - target).square().mean()
    loss.backward()
    optimizer.step()

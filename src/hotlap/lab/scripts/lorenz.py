"""A neural ODE of the Lorenz system with torchdiffeq: the training of the question about tiny networks."""

import argparse

import torch
from torch import nn
from torchdiffeq import odeint  # type: ignore[attr-defined]


class Field(nn.Module):
    """dy/dt = net(y)."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 100), nn.Tanh(), nn.Linear(100, 3))

    def forward(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """The change at `y` (3,), whatever `t`."""
        out: torch.Tensor = self.net(y)
        return out


def lorenz(t: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    """The true system at `u` (3,)."""
    x, y, z = u
    return torch.stack([10.0 * (y - x), x * (28.0 - z) - y, x * y - 8 / 3 * z])


def main() -> None:
    """A thousand iterations: solve, gradient, update."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the network has no work for a second one
    start = torch.tensor([1.0, 0.0, 0.0], device=options.device)
    times = torch.linspace(0, 1, 101, device=options.device)
    with torch.no_grad():
        target = odeint(lorenz, start, times, rtol=1e-6, atol=1e-8)  # type: ignore[no-untyped-call]
    field = Field().to(options.device)
    optimizer = torch.optim.Adam(field.parameters(), lr=0.01)
    for _ in range(1000):
        optimizer.zero_grad()
        found = odeint(field, start, times, rtol=1e-3, atol=1e-6)  # type: ignore[no-untyped-call]
        loss = (found - target).square().sum()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.0f}")


if __name__ == "__main__":
    main()

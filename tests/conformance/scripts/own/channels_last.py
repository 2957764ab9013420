"""A small net over images."""

import torch
from torch import nn


def main() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(1))
    x, y = torch.randn(32, 3, 8, 8), torch.randn(32, 1)
    model(x)
    optimizer = torch.optim.Adam(
        model.parameters(),  # all
        lr=0.1,
    )
    for _ in range(3):
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()

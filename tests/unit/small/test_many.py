"""Several networks at once are each as if alone."""

from typing import Any

import pytest
import torch
from torch import nn, optim

from hotlap.errors import UserError
from hotlap.small import compile_step, fit_many


def one(seed: int) -> tuple[Any, Any]:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    return model, compile_step(model, nn.MSELoss(), optim.Adam(model.parameters()))


def test_networks_fitted_together_are_those_fitted_alone() -> None:
    x, y = torch.randn(60, 4), torch.randn(60, 2)
    together = [one(seed) for seed in range(3)]
    losses = fit_many([step for _, step in together], x, y, epochs=3, batch_size=7, num_threads=2)
    for seed in range(3):
        model, step = one(seed)
        assert losses[seed] == step.fit(x, y, epochs=3, batch_size=7, generator=torch.Generator().manual_seed(seed))
        assert all(torch.equal(a, b) for a, b in zip(model.parameters(), together[seed][0].parameters(), strict=True))


def test_as_many_seeds_as_networks_are_needed() -> None:
    with pytest.raises(UserError, match="seeds"):
        fit_many([one(0)[1]], torch.randn(4, 4), torch.randn(4, 2), seeds=[1, 2])

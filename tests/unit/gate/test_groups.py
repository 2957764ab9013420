"""Parameters in other groups, or in another order: the training is the same as long as each is trained by the same."""

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from torch import nn

from hotlap.gate import Evidence, judge
from hotlap.record import Run, Verdict
from tests.unit.gate.recorded import recorded

NUM_STEPS = 40
Groups = Callable[[nn.Module], Any]
WEIGHTS, BIASES = {"weight_decay": 0.1}, {"weight_decay": 0.0}


def split(weights: dict[str, Any], biases: dict[str, Any]) -> Groups:
    def groups(model: nn.Module) -> Any:
        matrices = [p for p in model.parameters() if p.dim() > 1]
        return [{"params": matrices, **weights}, {"params": [p for p in model.parameters() if p.dim() == 1], **biases}]

    return groups


def each(settings: Callable[[int], dict[str, Any]]) -> Groups:
    return lambda model: [{"params": [p], **settings(p.dim())} for p in reversed(list(model.parameters()))]


@cache
def run(groups: Groups, order: str = "abcd") -> Run:
    """`order`: in which the model holds its layers."""
    torch.manual_seed(3)
    layers = {"a": nn.Linear(6, 8), "b": nn.Linear(8, 8), "c": nn.Linear(8, 8), "d": nn.Linear(8, 3)}
    model = nn.ModuleDict({name: layers[name] for name in order})
    optimizer = torch.optim.AdamW(groups(model), lr=3e-3, weight_decay=0.1)
    draws = torch.Generator().manual_seed(3)

    def loss_of() -> torch.Tensor:
        x = scores = torch.randn(16, 6, generator=draws)
        for name in "abcd":
            scores = layers[name](scores.tanh())
        return nn.functional.cross_entropy(scores, x[:, :3].argmax(1))

    return recorded(loss_of, list(model.parameters()), optimizer, num_steps=NUM_STEPS, num_samples=16, seed=3)


def ruling(base: Groups, lever: Groups, **order: str) -> tuple[Verdict, str]:
    found = judge("exact", Evidence(base=(run(base), run(base)), lever=(run(lever, **order),)))
    return found.verdict, found.why


ONE: Groups = lambda model: model.parameters()  # noqa: E731 - is compared by identity
DECAYED = split(WEIGHTS, BIASES)


@pytest.mark.parametrize(
    ("base", "lever"),
    [
        (ONE, split(WEIGHTS, WEIGHTS)),
        (ONE, lambda model: reversed(list(model.parameters()))),
        (DECAYED, each(lambda dim: WEIGHTS if dim > 1 else BIASES)),
        (DECAYED, split({"weight_decay": 0.1, "name": "weights"}, {"weight_decay": 0})),
    ],
    ids=["two groups", "another order", "a group for each", "other words"],
)
def test_another_grouping_is_the_same_training(base: Groups, lever: Groups) -> None:
    assert ruling(base, lever)[0] is Verdict.UNHARMED


def test_layers_that_a_model_holds_in_another_order_are_the_same_layers() -> None:
    assert ruling(DECAYED, DECAYED, order="dcba")[0] is Verdict.UNHARMED


def frozen(model: nn.Module) -> Any:
    next(model.parameters()).requires_grad_(False)
    return DECAYED(model)


@pytest.mark.parametrize(
    ("lever", "why"),
    [
        (
            split(WEIGHTS, WEIGHTS),
            "settings than the baseline: weight_decay 0.1 instead of 0.0 for 4 parameters and 0.1 for 4 parameters.",
        ),
        (
            lambda model: [{"params": list(model.parameters()), **WEIGHTS}, {"params": [], **BIASES}],
            "settings than the baseline: weight_decay 0.1 instead of 0.0 for 4 parameters and 0.1 for 4 parameters.",
        ),
        (
            split(BIASES, WEIGHTS),
            "settings than the baseline: the same values, for other parameters or at other steps.",
        ),
        (frozen, "settings than the baseline: parameters that require gradients 7 instead of 8."),
        (split({**WEIGHTS, "lr": 1e-3}, {**BIASES, "lr": 3e-3}), "other learning rates"),
    ],
    ids=["decay for all", "decay for all in one group", "exchanged", "frozen", "a rate of its own"],
)
def test_a_parameter_with_the_settings_of_others_is_harm(lever: Groups, why: str) -> None:
    verdict, told = ruling(DECAYED, lever)
    assert verdict is Verdict.HARMED
    assert why in told

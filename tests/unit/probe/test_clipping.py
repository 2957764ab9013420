"""Clipping: to what a script clips its gradients is noted, by whatever name it calls torch's functions."""

import importlib
from collections.abc import Iterator

import pytest
import torch
from torch import nn

from hotlap.levers.lever import Patch
from hotlap.probe import hooks, unseen
from hotlap.probe.clock import Clock
from hotlap.probe.evidence import Clips
from hotlap.probe.thread import TrainingThread


@pytest.fixture
def clips(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clips]:
    monkeypatch.setattr(unseen, "compiles", False)
    clips, patch = Clips(), Patch()
    thread = TrainingThread(Clock())
    assert thread.trains()
    hooks._hook_clipping(patch, thread, clips.add)
    yield clips
    patch.undo()


def layer(size: float) -> nn.Linear:
    """With gradients of this norm."""
    made = nn.Linear(4, 1, bias=False)
    made.weight.grad = torch.full((1, 4), size / 2)
    return made


def test_limits_are_told_with_whether_a_gradient_was_beyond_them(clips: Clips) -> None:
    assert clips.take() == ("", False)
    nn.utils.clip_grad_norm_(layer(3.0).parameters(), 5.0)
    assert clips.take() == ("norm 5", False)
    nn.utils.clip_grad_norm_(parameters=layer(3.0).parameters(), max_norm=2, norm_type=2.0)
    assert clips.take() == ("norm 2", True)
    nn.utils.clip_grad_value_(layer(3.0).parameters(), clip_value=0.5)
    nn.utils.clip_grad_norm_(layer(3.0).parameters(), torch.tensor(5.0))  # type: ignore[arg-type]
    nn.utils.clip_grad_norm_(layer(3.0).parameters(), 5.0)
    assert clips.take() == ("norm 5 and value 0.5", False)
    assert clips.take() == ("", False)


def test_the_function_does_and_gives_what_it_did(clips: Clips) -> None:
    module = importlib.import_module("torch.nn.utils.clip_grad")
    made = layer(3.0)
    assert float(module.clip_grad_norm_(made.parameters(), 1.5)) == 3.0
    assert made.weight.grad is not None
    assert made.weight.grad.norm() == pytest.approx(1.5, rel=1e-5)
    with pytest.raises(TypeError):
        module.clip_grad_norm_(made.parameters())
    with pytest.raises(RuntimeError, match="non-finite"):
        module.clip_grad_norm_(layer(float("inf")).parameters(), 1.0, error_if_nonfinite=True)
    assert clips.take() == ("norm 1.5", True)


def test_what_compiled_code_may_clip_is_not_known(clips: Clips, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unseen, "compiles", True)
    assert clips.take() is None
    nn.utils.clip_grad_norm_(layer(3.0).parameters(), 5.0)
    assert clips.take() == ("norm 5", False)

"""What is kept of the shapes that a model was given."""

from types import SimpleNamespace
from typing import Any

import torch

from hotlap.levers.lever import Patch
from hotlap.probe.profilers.shapes import Shapes
from hotlap.record import ShapeFacts


def facts_of(*calls: tuple[tuple[Any, ...], dict[str, Any]]) -> ShapeFacts:
    """One forward pass a step."""
    profiler = Shapes()
    session: Any = SimpleNamespace(steps=0, script=SimpleNamespace(on_forward=[]))
    profiler.install(session, Patch())
    for step, (args, kwargs) in enumerate(calls):
        session.steps = step
        for told in session.script.on_forward:
            told(torch.nn.Identity(), args, kwargs, None)
    found = profiler.fields()["shapes"]
    assert isinstance(found, ShapeFacts)
    return found


def tokens(*shape: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (torch.zeros(shape, dtype=torch.int64),), {}


def test_each_shape_is_counted_once_with_the_step_that_brought_it() -> None:
    found = facts_of(tokens(32, 10), tokens(32, 50), tokens(4, 60), tokens(32, 10))
    assert (found.num_shapes, found.new_steps) == (3, (0, 1, 2))


def test_all_tensors_of_a_call_make_its_shape() -> None:
    others: tuple[Any, ...] = (((torch.zeros(2), torch.zeros(3)), {}), ((), {"x": torch.zeros(2)}), (("text",), {}))
    for other in others:
        found = facts_of(tokens(32, 10), other, tokens(32, 50))
        assert found.num_shapes == 3


def test_the_size_of_what_the_model_was_given_is_kept_for_each_step() -> None:
    two: tuple[tuple[Any, ...], dict[str, Any]] = (torch.zeros(2), "text"), {"x": torch.zeros(3, 4)}
    assert facts_of(tokens(32, 10), two, tokens(4, 60)).elements == {0: 320, 1: 14, 2: 240}

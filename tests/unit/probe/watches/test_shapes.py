"""What is kept of the shapes that a model was given."""

from types import SimpleNamespace
from typing import Any

import torch

from hotlap.levers.lever import Patch
from hotlap.probe.watches.shapes import Shapes
from hotlap.record import ShapeFacts


def facts_of(*calls: tuple[tuple[Any, ...], dict[str, Any]]) -> ShapeFacts:
    """One forward pass a step."""
    watch = Shapes()
    session: Any = SimpleNamespace(steps=0, script=SimpleNamespace(on_forward=[]))
    watch.install(session, Patch())
    for step, (args, kwargs) in enumerate(calls):
        session.steps = step
        for told in session.script.on_forward:
            told(torch.nn.Identity(), args, kwargs, None)
    found = watch.fields()["shapes"]
    assert isinstance(found, ShapeFacts)
    return found


def tokens(*shape: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (torch.zeros(shape, dtype=torch.int64),), {}


def test_the_largest_is_the_one_with_most_elements() -> None:
    found = facts_of(tokens(32, 10), tokens(32, 50), tokens(4, 60), tokens(32, 10))
    assert (found.num_shapes, found.new_steps) == (3, (0, 1, 2))
    assert (found.largest, found.dtype) == ((32, 50), "int64")


def test_with_a_second_tensor_no_largest_batch_is_told() -> None:
    others: tuple[Any, ...] = (((torch.zeros(2), torch.zeros(3)), {}), ((), {"x": torch.zeros(2)}), (("text",), {}))
    for other in others:
        found = facts_of(tokens(32, 10), other, tokens(32, 50))
        assert (found.largest, found.dtype) == ((), "")

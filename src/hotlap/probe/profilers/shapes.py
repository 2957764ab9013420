"""How many different shapes the model is given."""

from collections.abc import Mapping
from typing import Any

import torch

from hotlap.levers.lever import Patch
from hotlap.probe.profilers.profiler import Profiler
from hotlap.record import ShapeFacts

_MAX_SHAPES = 1000
_MOST_STEPS = 1000


class Shapes(Profiler):
    """Passive: the shapes of what the first forward pass of each step was called with."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: set[Any] = set()
        self._new_steps: list[int] = []
        self._elements: dict[int, int] = {}
        self._looked_at = -1
        self._num_steps = 0

    def put_hooks(self, patch: Patch) -> None:
        """Hear of forward passes."""
        self.session.script.on_forward.append(self.guarded(self._forward_made))

    def _forward_made(self, module: torch.nn.Module, args: Any, kwargs: Any, result: Any) -> None:
        step = self.session.steps
        if step == self._looked_at or not torch.is_grad_enabled():
            return
        self._looked_at = step
        self._num_steps += 1
        given = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)]
        # A nested tensor has no shape of its own.
        shapes = tuple([() if value.is_nested else value.shape for value in given])
        if len(self._elements) < _MOST_STEPS:
            self._elements[step] = sum([value.numel() for value in given])
        if shapes not in self._seen and len(self._seen) < _MAX_SHAPES:
            self._seen.add(shapes)
            self._new_steps.append(step)

    def fields(self) -> Mapping[str, Any]:
        """`Run.shapes`; nothing where no module was called with tensors."""
        if not self._num_steps:
            return {}
        half = self._looked_at / 2
        return {
            "shapes": ShapeFacts(
                num_steps=self._num_steps,
                num_shapes=len(self._seen),
                num_new_late=sum(step > half for step in self._new_steps),
                new_steps=tuple(self._new_steps),
                elements=self._elements,
            )
        }

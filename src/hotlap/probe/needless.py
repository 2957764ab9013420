"""Operators of a step, one by one -> Sightings of those that do the same in each step, or that nothing asks for."""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from hotlap.predict.trace import kind_of
from hotlap.predict.workload import Kind
from hotlap.probe.digests import digest_of, leaves, storages
from hotlap.probe.event_counter import EventCounter, Spot
from hotlap.record import Phase, Scalar, Sighting, SightingKind

# What fills or copies memory gives what may be written to next, and must be made each time, unless all that comes of it
# is the same.
_FILLS = ("clone", "_like", "::new_", "::empty", "::zeros", "::ones", "::full")

_DETACH = "aten::detach"

_Key = tuple[Phase, Spot, Any, int]
"""(phase, line, operator, which of these in the step)."""


@dataclass(slots=True)
class _Same:
    name: str
    digest: bytes | None
    """None: it differed."""
    seconds: list[float] = field(default_factory=list)
    counts: bool = True
    """It could be made once, in all steps so far."""


class Unchanged:
    """Which operators are given the same, and make the same of it, in each step."""

    def __init__(self) -> None:
        self._seen: dict[_Key, _Same] = {}
        self._step: dict[_Key, tuple[str, bytes, float, frozenset[StorageWeakRef]]] = {}
        """The step in progress: (operator, digest, seconds, what is filled or written to)."""
        self._numbers: Counter[tuple[Phase, Spot, Any]] = Counter()
        self._changing: set[StorageWeakRef] = set()
        """Storages last written by what changes: that `isfinite` is true of each batch tells of no sameness."""
        self._born: set[StorageWeakRef] = set()
        self._read: set[StorageWeakRef] = set()
        """By what is the same."""
        self._passed_on: set[StorageWeakRef] = set()
        """To what changes, or is not looked at: it may write to them."""

    def saw(self, name: str, func: Any, phase: Phase, spot: Spot, *, graph: bool, told: Any, seconds: float) -> None:
        """An operator; `told`: what it was given, and made. `seconds`: 0 where it is a call and no arithmetic. (To hash
        3 MB takes 0.3 ms; what differed once is not hashed again.)"""
        *given, made = told
        sources, targets = frozenset(storages(given)), frozenset(storages(made))
        changes = graph or not self._changing.isdisjoint(sources)
        self._numbers[phase, spot, func] += 1
        key = phase, spot, func, self._numbers[phase, spot, func]
        seen = self._seen.get(key)
        if not changes and (seen is None or seen.digest is not None):
            digest = b"".join(map(digest_of, leaves(told)))
            changes = seen is not None and digest != seen.digest
            fills = _writes(func) or any(part in name for part in _FILLS)
            self._step[key] = name, b"" if changes else digest, seconds, targets if fills else frozenset()
        elif seen is not None:
            changes, seen.digest = True, None
        (self._changing.update if changes else self._changing.difference_update)(targets)
        (self._passed_on if changes else self._read).update(sources if changes else sources - targets)
        self._born |= targets - sources

    def passed(self, given: Any) -> None:
        """An operator that is not looked at was given this."""
        self._passed_on.update(storages(given))

    def end_step(self, *, counts: bool) -> None:
        """The operators that come next are those of another step; one that does not count is forgotten."""
        once = (self._born & self._read) - self._passed_on
        for key, (name, digest, seconds, filled) in self._step.items() if counts else ():
            seen = self._seen.setdefault(key, _Same(name, digest))
            seen.digest = digest if digest == seen.digest else None
            seen.seconds.append(seconds)
            seen.counts &= filled <= once
        for kept in (self._step, self._numbers, self._changing, self._born, self._read, self._passed_on):
            kept.clear()

    def sightings(self, num_steps: int) -> tuple[Sighting, ...]:
        """By line and operator, costliest first."""
        found = EventCounter()
        for step in range(num_steps if num_steps > 1 else 0):
            for (phase, spot, _, _), seen in self._seen.items():
                same = seen.counts and seen.digest is not None and len(seen.seconds) == num_steps
                if same and seen.seconds[step]:
                    detail: Mapping[str, Scalar] = {"phase": phase, "steps": num_steps}
                    found.add(SightingKind.UNCHANGED, seen.name, spot, cost_s=seen.seconds[step], detail=detail)
            found.end_step()
        return found.sightings()


def _writes(func: Any) -> bool:
    """Into what it is given; higher-order operators (cond, flex_attention) have no schema."""
    schema = getattr(func, "_schema", None)
    return schema is None or bool(schema.is_mutable)


class Unused:
    """Which operators of the model make what no gradient goes through, and no other operator reads.

    Autograd numbers its nodes, and makes that of an operator before the operator runs. What a backward pass comes from
    is reached; so is what a metric, a copy or a printed number is made of.
    """

    def __init__(self, event_counter: EventCounter) -> None:
        self._event_counter = event_counter
        self._made: list[tuple[int, Phase, Spot, str, float]] = []
        """Of the step in progress: (number of its node, where, operator, seconds)."""
        self._reached: set[int] = set()
        self._executed: set[int] = set()
        """By a backward pass; `_reached` are all that it comes from as well."""
        self._last = _number()
        self._frame: Any = None

    def saw(
        self, name: str, phase: Phase, spot: Spot | None, *, graph: bool, tensors: Sequence[Any], seconds: float
    ) -> None:
        """An operator. `spot`: None where it is neither the model's nor the script's own; `graph`: a gradient can go
        through what it makes."""
        number, before = _number(), self._last
        self._last = number
        if phase is Phase.BACKWARD:
            node = torch._C._current_autograd_node()
            if node is not None:
                self._executed.add(node._sequence_nr())
                self._reach(node)
        elif graph and number > before:
            self._frame = _caller()
            if spot is not None:
                self._made.append((number, phase, spot, name, seconds))
        elif not name.endswith("_like") and not self._keeps(name, number, tensors):
            for tensor in tensors:
                self._reach(tensor.grad_fn)

    def _keeps(self, name: str, number: int, tensors: Sequence[Any]) -> bool:
        """The operator before keeps its own result for its backward pass: no Python ran between the two."""
        if name != _DETACH or self._frame is None or tensors[0].grad_fn is None:
            return False
        return bool(tensors[0].grad_fn._sequence_nr() == number and self._frame == _caller())

    def _reach(self, node: Any) -> None:
        nodes = [node]
        while nodes:
            node = nodes.pop()
            if node is None or node._sequence_nr() in self._reached:
                continue
            self._reached.add(node._sequence_nr())
            nodes += [one for one, _ in node.next_functions]

    def end_step(self) -> None:
        """The optimizer steps. Where that lies between a forward pass and its gradients, nothing is told."""
        some = any(made[0] in self._executed for made in self._made)
        for number, phase, spot, name, seconds in self._made if some else ():
            if number not in self._reached:
                self._event_counter.add(SightingKind.UNUSED, name, spot, cost_s=seconds, detail={"phase": phase})
        self._made.clear()
        self._reached.clear()
        self._executed.clear()
        self._frame = None


class Broadcasts:
    """Where the model's column of numbers meets a row of as many that have no gradient: each meets each of the others.

    What later has the shape of that is counted with it, products left out.
    """

    def __init__(self, event_counter: EventCounter) -> None:
        self._event_counter = event_counter
        self._met: dict[tuple[int, ...], tuple[str, Spot]] = {}
        """Of the step in progress: shape -> (operator, where)."""

    def saw(self, name: str, spot: Spot | None, *, tensors: Sequence[Any], made: Any, seconds: float) -> None:
        """An operator; `spot` is None where it is neither the model's nor the script's own."""
        num = _outer(tensors) if spot is not None else 0
        if spot is not None and num:
            self._met.setdefault((num, num), (name, spot))
        if self._met and kind_of(name.partition("::")[2]) is Kind.VECTOR:
            shapes = {tuple(one.shape) for one in (made, *tensors) if isinstance(one, torch.Tensor)}
            for shape in shapes & self._met.keys():
                self._event_counter.add(
                    SightingKind.BROADCAST, *self._met[shape], cost_s=seconds, detail={"size": shape[0]}
                )

    def end_step(self) -> None:
        """What comes next is another step's."""
        self._met.clear()


def _outer(tensors: Sequence[Any]) -> int:
    """Length of a column (n, 1) and a row (n) or (1, n), of which one requires gradients and the other does not; 0 for
    what is none. A dimension that was expanded counts as 1."""
    if len(tensors) != 2 or tensors[0].requires_grad == tensors[1].requires_grad:
        return 0
    if any(one.layout != torch.strided or one.is_nested or not one.is_floating_point() for one in tensors):
        return 0
    shapes = [
        (1,) * (2 - one.dim())
        + tuple(size if stride else 1 for size, stride in zip(one.shape, one.stride(), strict=True))
        for one in tensors
    ]
    num = max(shapes[0])
    return num if num > 1 and sorted(shapes) == [(1, num), (num, 1)] else 0


def _number() -> int:
    """Of the newest node of autograd's in this thread."""
    return int(torch._C._autograd._get_sequence_nr()) - 1


def _caller() -> tuple[int, int]:
    """The frame that called torch, and where in it; what torch calls a dispatch mode with lies between."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_name != "__torch_dispatch__":
        frame = frame.f_back
    while frame.f_back is not None and (
        frame.f_code.co_name == "__torch_dispatch__" or "/torch/_" in frame.f_code.co_filename
    ):
        frame = frame.f_back
    return id(frame), frame.f_lasti

"""Forward passes whose result no gradient asks for, of a validation, or of models that nothing trains; and attention
that runs over the batch."""

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from types import CodeType
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from hotlap.levers.lever import Patch
from hotlap.probe.digests import leaves, storages
from hotlap.probe.event_counter import Spot, here
from hotlap.probe.frozen import Frozen
from hotlap.probe.guard import Function
from hotlap.probe.profilers.profiler import Profiler
from hotlap.probe.sites import is_users, outwards, position
from hotlap.record import Scalar, Sighting, SightingKind

# Following a forward pass takes 6 to 10 us, so it is done at a few steps only, and where a step makes more of them
# than any step before it: there somebody may be validating. Not the first one: what comes between two updates is not in
# it.
_FOLLOWED = range(3, 12)
_THEN_EVERY = 64

# Attention is looked at in the first steps; the shapes do not change their meaning later.
_ATTENTION_STEPS = 6

# So many callers of a line are looked at for one that makes no other passes than those in vain.
_MOST_CALLS = 8

_Calls = tuple[tuple[CodeType, int], ...]
"""Those in the user's source that are being made, the innermost first: function, instruction in it."""


@dataclass(slots=True, eq=False)
class _Pass:
    """A forward pass that is followed until a gradient arrives, or does not."""

    name: str
    step: int
    calls: _Calls
    seconds: float
    evaluating: bool
    extra: bool
    """It was one more than steps before it had made."""
    storages: frozenset[StorageWeakRef]
    used: bool = False


@dataclass(slots=True)
class _Seen:
    """Passes of one kind at one line."""

    num: float = 0
    seconds: float = 0.0
    rows: set[tuple[StorageWeakRef, int, Any]] = field(default_factory=set)
    """Of single samples: (storage, its version, offset in it) of each tensor."""


_Key = tuple[SightingKind, str, _Calls, bool, bool]
"""(kind, module, where, in evaluation mode, seen in followed steps alone)."""


class Modules(Profiler):
    """Passive."""

    def __init__(self) -> None:
        super().__init__()
        self._passes: list[_Pass] = []
        self._seen: dict[_Key, _Seen] = defaultdict(_Seen)
        self._used: set[tuple[CodeType, int]] = set()
        """Calls within which a pass was made that a gradient came for."""
        self._in_step = 0
        self._usual = 0
        self._followed_steps = 0
        self._step = -1
        self._follows = False
        # A parameter of each module that was seen to train: it may be evaluated without the wrapper that it trains in.
        self._trained: set[int] = set()
        self._attention: set[tuple[str, Spot, int, int]] = set()
        """(module, where, length of what it takes for the sequence, of what it takes for the batch)."""
        self._drew = False
        """A loader gave batches, of samples that no result of a model has a part in."""
        self._batch_sizes: set[int] = set()
        self._first_dims: set[int] = set()
        self._out_shapes: list[tuple[int, ...]] = []
        self._frozen = Frozen()

    def put_hooks(self, patch: Patch) -> None:
        """Hear of forward passes; look into attention for the first steps."""
        self.session.script.on_forward.append(self.guarded(self._forward_made))
        self.session.script.on_batch.append(self.guarded(self._batch_drawn))
        self.hook(self.patch, torch.nn.MultiheadAttention, "forward", self._attending)
        patch.on_undo(self.patch.undo)

    # Forward passes

    def _forward_made(self, module: torch.nn.Module, args: Any, kwargs: Any, result: Any) -> None:
        if not torch.is_grad_enabled():
            self._evaluated(module, args, kwargs)
            return
        if self.session.steps == self._step:
            self._in_step += 1
        else:
            self._new_step(self.session.steps)
        extra = self._in_step > self._usual
        if self._follows or extra:
            self._look_at(module, args, kwargs, result, extra=extra)
        if self._step in _FOLLOWED:
            self._frozen.trains(module, (args, kwargs), self.session.clock.last_s())

    def _look_at(self, module: torch.nn.Module, args: Any, kwargs: Any, result: Any, *, extra: bool) -> None:
        seconds = self.session.clock.last_s()
        if module.training:
            self._trained |= _first_parameter(module)
        self._handed_on(args)
        if self.session.steps < _ATTENTION_STEPS:
            self._note_shapes(args, result)
        if self._follows and _is_of_one_sample(given := results((args, kwargs))):
            key = SightingKind.SINGLE, type(module).__name__, _calls(1), not module.training, True
            self._add(key, seconds)
            known = (one for one in given if not one.is_inference())
            self._seen[key].rows |= {
                (storage, one._version, one.storage_offset()) for one in known for storage in storages([one])
            }
        if self._follows or self._step > _FOLLOWED.stop:
            self._follow(module, result, seconds, extra=extra and not self._follows)

    def _evaluated(self, module: torch.nn.Module, args: Any, kwargs: Any) -> None:
        session = self.session
        if session.steps in _FOLLOWED:
            self._frozen.saw(
                module,
                (args, kwargs),
                session.facts.parameters,
                step=session.steps,
                spot=_place(_calls(1))[0],
                seconds=session.clock.last_s(),
            )
        if not module.training and not self._trained.isdisjoint(_first_parameter(module)):
            seconds = self.session.clock.last_s()
            self._add((SightingKind.EVALUATION, type(module).__name__, _calls(1), True, False), seconds)

    def _follow(self, module: torch.nn.Module, result: Any, seconds: float, *, extra: bool) -> None:
        tensors = [leaf for leaf in results(result) if leaf.grad_fn is not None]
        if not tensors:
            return
        passed = _Pass(
            name=type(module).__name__,
            step=self.session.steps,
            calls=_calls(_MOST_CALLS),
            seconds=seconds,
            evaluating=not module.training,
            extra=extra,
            storages=frozenset(storages(tensors)),
        )

        def asked_for(gradient: torch.Tensor) -> None:
            passed.used = True

        for tensor in tensors:
            tensor.register_hook(asked_for)  # type: ignore[no-untyped-call]
        self._passes.append(passed)

    def _handed_on(self, args: Any) -> None:
        """A result that goes into another module without its gradient (a GAN's sample) was not made in vain."""
        pending = [passed for passed in self._passes if not passed.used and passed.step == self._step]
        if not pending:
            return
        # With its gradient it is on its way to a loss, maybe of a validation: its hook tells whether one is asked for.
        given = {*storages([tensor for tensor in results(args) if tensor.grad_fn is None])}
        for passed in pending:
            passed.used |= not given.isdisjoint(passed.storages)

    def _new_step(self, step: int) -> None:
        """Judge what was followed two steps ago: some gradients come late."""
        if self._passes:
            self._judge(before=step - 1)
        if self._follows:
            self._followed_steps += 1
            self._usual = max(self._usual, self._in_step)
        self._step, self._in_step = step, 1
        self._follows = step in _FOLLOWED or (step > 0 and step % _THEN_EVERY == 0)
        if step >= _ATTENTION_STEPS:
            self.patch.undo()

    def _judge(self, *, before: int) -> None:
        for passed in self._passes:
            if passed.used:
                self._used.update(passed.calls)
            elif passed.step < before:
                key = SightingKind.WASTED_FORWARD, passed.name, passed.calls, passed.evaluating, not passed.extra
                self._add(key, passed.seconds)
        self._passes = [passed for passed in self._passes if passed.step >= before]

    def _add(self, key: _Key, seconds: float) -> None:
        self._seen[key].num += 1
        self._seen[key].seconds += seconds

    # Attention

    def _batch_drawn(self, iterator: Any, batch: Any) -> None:
        self._drew = True
        if self.session.steps in range(_FOLLOWED.start - 1, _FOLLOWED.stop):  # it may be drawn a step ahead
            self._frozen.drew(batch)
        if self._step < _ATTENTION_STEPS:
            first = next((leaf for leaf in results(batch) if leaf.dim()), None)
            if first is not None:
                self._batch_sizes.add(first.shape[0])

    def _note_shapes(self, args: Any, result: Any) -> None:
        self._first_dims |= {leaf.shape[0] for leaf in results(args) if leaf.dim()}
        self._out_shapes += [tuple(leaf.shape) for leaf in results(result) if leaf.dim()]

    def _attending(self, forward: Function, module: Any, *args: Any, **kwargs: Any) -> Any:
        given = next((leaf for leaf in results((args, kwargs)) if leaf.dim() == 3), None)
        if given is not None and not module.batch_first and torch.is_grad_enabled():
            self._attention.add((type(module).__name__, here(), given.shape[0], given.shape[1]))
        return forward(module, *args, **kwargs)

    def _runs_over_the_batch(self, length: int, batch: int) -> bool:
        """Is the first dimension, which the module takes for the sequence, surely the batch?"""
        if length in (batch, 1):
            return False
        if self._batch_sizes:
            return length in self._batch_sizes and batch not in self._batch_sizes
        # Without a loader: what comes out has one row for each entry of that dimension, and the other one is gone.
        rows = {shape[0] for shape in self._out_shapes if batch not in shape}
        return length in self._first_dims and length in rows

    # The end

    def fields(self) -> Mapping[str, Any]:
        """`Run.sightings` of five kinds."""
        self._judge(before=self.session.steps)
        self._followed_steps += self._follows and self._step < self.session.steps
        self._follows = False
        sightings = list(self._of_passes())
        sightings += self._frozen.sightings(min(self._followed_steps, len(_FOLLOWED)))
        sightings += [
            Sighting(
                kind=SightingKind.ATTENTION_OVER_BATCH,
                what=name,
                **place.fields(),
                per_step=1.0,
                detail={"length": length},
            )
            for name, place, length, batch in self._attention
            if self._runs_over_the_batch(length, batch)
        ]
        return {"sightings": tuple(sightings)}

    def _of_passes(self) -> Iterator[Sighting]:
        """One for each line: in vain is the innermost call in which no other passes are made."""
        by_place: dict[tuple[SightingKind, str, bool, _Calls, bool], list[_Seen]] = defaultdict(list)
        for (kind, name, calls, evaluating, followed), seen in self._seen.items():
            if kind is SightingKind.SINGLE and not (self._drew or _are_of_one_tensor(seen)):
                continue  # each may need what came of the one before, as what an agent observes does
            in_vain = kind is SightingKind.WASTED_FORWARD
            own = tuple(call for call in calls if not in_vain or call not in self._used)
            steps = max(1, self._followed_steps if followed else self._step)
            a_step = _Seen(seen.num / steps, seen.seconds / steps)
            by_place[kind, name, evaluating, (own or calls)[:1], not own].append(a_step)
        for (kind, name, evaluating, place, shared), found in by_place.items():
            spot, span = _place(place)
            yield Sighting(
                kind=kind,
                what=name,
                **spot.fields(),
                per_step=sum(seen.num for seen in found),
                cost_s=sum(seen.seconds for seen in found),
                detail={"evaluation": evaluating, **({} if shared else span)},
            )


def _calls(most: int) -> _Calls:
    """In the user's source, as many at most."""
    users = (frame for frame in outwards(sys._getframe(1)) if is_users(frame.f_code.co_filename))
    return tuple((frame.f_code, frame.f_lasti) for frame in islice(users, most))


def _place(calls: _Calls) -> tuple[Spot, Mapping[str, Scalar]]:
    """The line of the one call, and where it begins and ends, as in a `CallSite`."""
    if not calls:
        return Spot(), {}
    ((code, instruction),) = calls
    line, *span = position(code, instruction)
    known = {} if None in span else dict(zip(("end_line", "col", "end_col"), span, strict=True))
    return Spot(code.co_filename, line), known


def _is_of_one_sample(given: Sequence[torch.Tensor]) -> bool:
    """Each tensor has one row, or is a row itself (a list of whole numbers may be a batch), and a pass alone needs it:
    what has gradients is a state or a result that went through another one. Under `vmap` it stands for all of them."""
    return bool(given) and all(
        not (one.grad_fn is not None or torch._C._functorch.is_batchedtensor(one))
        and (one.shape[0] == 1 if one.dim() > 1 else one.dim() == 1 and (len(one) == 1 or one.is_floating_point()))
        for one in given
    )


def _are_of_one_tensor(seen: _Seen) -> bool:
    """There were several that lie in one tensor, which nobody wrote to in between: they were there all at once."""
    return len(seen.rows) > len({(storage, version) for storage, version, _ in seen.rows})


def _first_parameter(module: torch.nn.Module) -> set[int]:
    """Which one it is; nothing where there is none."""
    return {id(parameter) for parameter in islice(module.parameters(), 1)}


def results(value: Any) -> list[torch.Tensor]:
    """The tensors in what a module takes or gives back (attributes of an output object as well), but for nested ones,
    which have no shape."""
    found = []
    for leaf in leaves(value):
        if isinstance(leaf, torch.Tensor):
            found.append(leaf)
        elif hasattr(leaf, "__dataclass_fields__"):
            found += [part for part in vars(leaf).values() if isinstance(part, torch.Tensor)]
    return [tensor for tensor in found if not tensor.is_nested]

"""Forward passes whose result no gradient asks for, or of a validation; and attention that runs over the batch."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from hotlap.levers.lever import Patch
from hotlap.probe.evidence import leaves
from hotlap.probe.guard import Function
from hotlap.probe.tally import Spot, here, sighting
from hotlap.probe.watches.watch import Watch
from hotlap.record import Sighting, SightingKind

if TYPE_CHECKING:
    from hotlap.probe.session import Session

# Following a forward pass takes 6 to 10 us, so it is done at a few steps only, and where a step makes more of them
# than any step before it: there somebody may be validating.
_FOLLOWED = range(3, 12)
_THEN_EVERY = 64

# Attention is looked at in the first steps; the shapes do not change their meaning later.
_ATTENTION_STEPS = 6

_is_grad_enabled = torch.is_grad_enabled


@dataclass(slots=True, eq=False)
class _Pass:
    """A forward pass that is followed until a gradient arrives, or does not."""

    name: str
    step: int
    place: Spot
    seconds: float
    evaluating: bool
    extra: bool
    """It was one more than steps before it had made."""
    storages: frozenset[StorageWeakRef]
    used: bool = False


@dataclass(slots=True)
class _Waste:
    name: str
    place: Spot
    evaluating: bool
    seconds: float = 0.0
    extra_s: float = 0.0
    passes: int = 0
    extra_passes: int = 0


@dataclass(slots=True)
class _Evaluation:
    name: str
    seconds: float = 0.0
    passes: int = 0


@dataclass(slots=True)
class _Attention:
    name: str
    place: Spot
    length: int
    batch: int
    steps: set[int] = field(default_factory=set)


class Modules(Watch):
    """Passive."""

    def __init__(self) -> None:
        super().__init__()
        self._passes: list[_Pass] = []
        self._wasted: dict[Any, _Waste] = {}
        self._in_step = 0
        self._usual = 0
        self._followed_steps = 0
        self._step = -1
        self._follows = False
        # A parameter of each module that was seen to train: it may be evaluated without the wrapper that it trains in.
        self._trained: set[int] = set()
        self._evaluations: dict[Spot, _Evaluation] = {}
        self._attention: dict[Any, _Attention] = {}
        self._batch_sizes: set[int] = set()
        self._first_dims: set[int] = set()
        self._out_shapes: list[tuple[int, ...]] = []
        self._depth = 0

    def install(self, session: "Session", patch: Patch) -> None:
        """Hear of forward passes; look into attention for the first steps."""
        super().install(session, patch)
        session.script.on_forward.append(self.guarded(self._forward_made))
        hears_batches = self.guarded(self._batch_drawn)
        session.script.on_batch.append(hears_batches)
        self.patch.on_undo(lambda: session.script.on_batch.remove(hears_batches))
        for kind in (torch.nn.TransformerEncoder, torch.nn.TransformerDecoder, torch.nn.TransformerEncoderLayer,
                     torch.nn.TransformerDecoderLayer, torch.nn.MultiheadAttention):  # fmt: skip
            self.hook(self.patch, kind, "forward", self._looking)
        patch.on_undo(self.patch.undo)

    # Forward passes

    def _forward_made(self, module: torch.nn.Module, args: Any, kwargs: Any, result: Any) -> None:
        if not _is_grad_enabled():
            self._evaluated(module)
            return
        if self.session.steps == self._step:
            self._in_step += 1
        else:
            self._new_step(self.session.steps)
        extra = self._in_step > self._usual
        if self._follows or extra:
            self._look_at(module, args, result, extra=extra)

    def _look_at(self, module: torch.nn.Module, args: Any, result: Any, *, extra: bool) -> None:
        seconds = self.session.clock.last_s()
        if module.training:
            self._trained |= _first_parameter(module)
        self._handed_on(args)
        if self.session.steps < _ATTENTION_STEPS:
            self._note_shapes(args, result)
        if self._follows or self._step > _FOLLOWED.stop:
            self._follow(module, result, seconds, extra=extra and not self._follows)

    def _evaluated(self, module: torch.nn.Module) -> None:
        if not module.training and not self._trained.isdisjoint(_first_parameter(module)):
            seconds = self.session.clock.last_s()
            seen = self._evaluations.setdefault(here(), _Evaluation(type(module).__name__))
            seen.seconds += seconds
            seen.passes += 1

    def _follow(self, module: torch.nn.Module, result: Any, seconds: float, *, extra: bool) -> None:
        tensors = [leaf for leaf in _results(result) if leaf.grad_fn is not None]
        if not tensors:
            return
        passed = _Pass(
            name=type(module).__name__,
            step=self.session.steps,
            place=here(),
            seconds=seconds,
            evaluating=not module.training,
            extra=extra,
            storages=_storages(tensors),
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
        given = _storages(tensor for tensor in _results(args) if tensor.grad_fn is None)
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
        self._follows = step in _FOLLOWED or step % _THEN_EVERY == 0
        if step >= _ATTENTION_STEPS:
            self.patch.undo()

    def _judge(self, *, before: int) -> None:
        for passed in self._passes:
            if passed.step < before and not passed.used:
                self._add(passed)
        self._passes = [passed for passed in self._passes if passed.step >= before]

    def _add(self, passed: _Pass) -> None:
        key = (passed.name, passed.place, passed.evaluating)
        waste = self._wasted.setdefault(key, _Waste(*key))
        if passed.extra:
            waste.extra_s += passed.seconds
            waste.extra_passes += 1
        else:
            waste.seconds += passed.seconds
            waste.passes += 1

    # Attention

    def _batch_drawn(self, iterator: Any, batch: Any) -> None:
        if self._step < _ATTENTION_STEPS:
            first = next((leaf for leaf in _results(batch) if leaf.dim()), None)
            if first is not None:
                self._batch_sizes.add(first.shape[0])

    def _note_shapes(self, args: Any, result: Any) -> None:
        self._first_dims |= {leaf.shape[0] for leaf in _results(args) if leaf.dim()}
        self._out_shapes += [tuple(leaf.shape) for leaf in _results(result) if leaf.dim()]

    def _looking(self, forward: Function) -> Function:
        def looked_into(module: Any, *args: Any, **kwargs: Any) -> Any:
            if self._depth == 0 and torch.is_grad_enabled():
                given = next((leaf for leaf in _results((args, kwargs)) if leaf.dim() == 3), None)
                if given is not None and not _batch_first(module):
                    self._saw_attention(type(module).__name__, given)
            self._depth += 1
            try:
                return forward(module, *args, **kwargs)
            finally:
                self._depth -= 1

        return looked_into

    def _saw_attention(self, name: str, given: torch.Tensor) -> None:
        place = here()
        length, batch, _ = given.shape
        seen = self._attention.setdefault((name, place, length, batch), _Attention(name, place, length, batch))
        seen.steps.add(self.session.steps)

    def _runs_over_the_batch(self, seen: _Attention) -> bool:
        """Is the first dimension, which the module takes for the sequence, surely the batch?"""
        if seen.length in (seen.batch, 1):
            return False
        if self._batch_sizes:
            return seen.length in self._batch_sizes and seen.batch not in self._batch_sizes
        # Without a loader: what comes out has one row for each entry of that dimension, and the other one is gone.
        gone = [shape for shape in self._out_shapes if len(shape) > 0 and seen.batch not in shape]
        rows = {shape[0] for shape in gone}
        return seen.length in self._first_dims and seen.length in rows

    # The end

    def fields(self) -> Mapping[str, Any]:
        """`Run.sightings` of three kinds."""
        self._judge(before=self.session.steps)
        self._followed_steps += self._follows and self._step < self.session.steps
        self._follows = False
        steps = max(1, self._step)
        sightings = [self._wasted_sighting(waste) for waste in self._wasted.values()]
        sightings += [
            sighting(
                SightingKind.EVALUATION,
                seen.name,
                place,
                per_step=seen.passes / steps,
                cost_s=seen.seconds / steps,
                detail={},
            )
            for place, seen in self._evaluations.items()
        ]
        sightings += [
            sighting(
                SightingKind.ATTENTION_OVER_BATCH,
                seen.name,
                seen.place,
                per_step=1.0,
                detail={"length": seen.length, "batch": seen.batch},
            )
            for seen in self._attention.values()
            if self._runs_over_the_batch(seen)
        ]
        return {"sightings": tuple(sightings)}

    def _wasted_sighting(self, waste: _Waste) -> Sighting:
        followed, steps = max(1, self._followed_steps), max(1, self._step)
        return sighting(
            SightingKind.WASTED_FORWARD,
            waste.name,
            waste.place,
            per_step=waste.passes / followed + waste.extra_passes / steps,
            cost_s=waste.seconds / followed + waste.extra_s / steps,
            detail={"evaluation": waste.evaluating},
        )


def _first_parameter(module: torch.nn.Module) -> set[int]:
    """Which one it is; nothing where there is none."""
    return {id(parameter) for parameter in islice(module.parameters(), 1)}


def _storages(tensors: Iterable[torch.Tensor]) -> frozenset[StorageWeakRef]:
    """Where they live, without keeping it alive. (An address would not do: memory given back is soon somebody's.)"""
    found = []
    for tensor in tensors:
        with suppress(NotImplementedError):  # a sparse one, or a wrapper of torch.func's, has none of its own
            found.append(StorageWeakRef(tensor.untyped_storage()))  # type: ignore[no-untyped-call]
    return frozenset(found)


def _batch_first(module: Any) -> bool:
    """Of the attention inside: containers and layers do not all have the attribute themselves."""
    for part in module.modules():
        if isinstance(part, torch.nn.MultiheadAttention):
            return bool(part.batch_first)
    return True


def _results(value: Any) -> list[torch.Tensor]:
    """The tensors in what a module takes or gives back (attributes of an output object as well), but for nested ones,
    which have no shape."""
    found = []
    for leaf in leaves(value):
        if isinstance(leaf, torch.Tensor):
            found.append(leaf)
        elif hasattr(leaf, "__dataclass_fields__"):
            found += [part for part in vars(leaf).values() if isinstance(part, torch.Tensor)]
    return [tensor for tensor in found if not tensor.is_nested]

"""What is given by number: columns behind the longest sequence of a batch, rows of tables that it does not touch."""

import time
from collections import defaultdict
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import torch

from hotlap.probe.clock import BACKWARD
from hotlap.probe.event_counter import Spot, here
from hotlap.probe.modes import ObserverMode
from hotlap.probe.profilers.modules import results
from hotlap.probe.profilers.profiler import Profiler
from hotlap.record import Phase, Scalar, Sighting, SightingKind
from hotlap.record.moments import median

# What indexes a table or says what counts. (Bytes are mostly pixels, whose dark borders are data.)
_NUMBERS = (torch.int64, torch.int32, torch.bool)

# Fewer columns are those of a table.
_SHORTEST = 8

# Padding comes behind an item and hardly within. Zeros of counts, of classes (one-hot) and of images lie all over.
_WITHIN = 0.1

# What takes longer to fill than to call, and to sort the rows that are looked up.
_LARGE_BYTES = 1 << 20

_Key = tuple[str, Spot, tuple[int, ...]]
"""(module, line, shape)."""


class _Batch(NamedTuple):
    """Lengths in columns: of all, of the batch's shortest and of its longest item."""

    padded: int
    shortest: int
    longest: int


@dataclass(frozen=True, slots=True)
class _Table:
    """An embedding that trains; how many rows of each gradient are not 0."""

    weight: torch.Tensor
    kind: str
    name: str
    spot: Spot
    touched: list[torch.Tensor] = field(default_factory=list)

    def sighting(self, steps: int, cost_s: float) -> Sighting:
        rows, per_step = len(self.weight), len(self.touched) / max(1, steps)
        touched = int(torch.stack(self.touched).float().mean() * per_step)
        return Sighting(
            kind=SightingKind.DENSE_GRADIENT,
            what=self.kind,
            **self.spot.fields(),
            per_step=per_step,
            cost_s=cost_s if self.weight.device.type == "cpu" else None,
            detail={"module": self.name, "rows": rows, "touched": touched, "elements": self.weight.numel()},
        )


class Indices(Profiler):
    """WINDOW: one step where the model is given nothing that could be padded, and has no table."""

    num_steps: ClassVar[int] = 12
    patience_s: ClassVar[float] = 2.0
    fewest_steps: ClassVar[int] = 3

    def __init__(self) -> None:
        super().__init__()
        self._forward_s = 0.0
        self._seen: dict[_Key, list[tuple[_Batch, float]]] = defaultdict(list)
        """With the seconds of the forward pass."""
        self._steps = 0
        self._tables: dict[int, _Table] = {}
        """By the identity of their weight."""
        self._watches = False
        """For gradients of tables, which are filled, and added up, as often as one is used."""
        self._made_s: dict[torch.Size, float] = defaultdict(float)
        """What backward passes take to make tensors, by their shape."""
        self._backward_s = 0.0

    def steps(self) -> Generator[None]:
        """Forward passes that train, from in front of them."""
        self.hear(self.session.script.on_forward, self._forward_made)
        for made in self.paced():
            if made and not (self._seen or self._tables):
                return
            yield
            self._steps += 1
            if self._watches:
                self._backward_s += self.session.clock.last_spent[BACKWARD] if self.session.clock.last_spent else 0.0
            elif self._tables:
                self._watches, self._backward_s = True, 0.0
                self.put_on(ObserverMode(self._see))

    def _see(self, func: Any, args: Any, kwargs: Any, result: Any, seconds: float) -> None:
        large = isinstance(result, torch.Tensor) and result.nbytes >= _LARGE_BYTES and result.is_floating_point()
        if large and self.session.clock.phase() is Phase.BACKWARD:
            self._made_s[result.shape] += seconds

    def _forward_made(self, module: torch.nn.Module, args: Any, kwargs: Any, result: Any) -> None:
        if not (module.training and torch.is_grad_enabled()):
            return
        seconds = self.session.clock.last_s()
        self._forward_s += seconds
        found = _padded([one for one in results((args, kwargs)) if one.dtype in _NUMBERS and one.dim() > 1])
        if found is not None:
            batch, shape = found
            self._seen[type(module).__name__, here(), shape].append((batch, seconds))
        # (Compiled code would be compiled again for a hook.)
        for name, table in module.named_modules() if not self.session.facts.compiled else ():
            if isinstance(table, torch.nn.Embedding | torch.nn.EmbeddingBag) and id(table.weight) not in self._tables:
                self._look_at(table, name)

    def _look_at(self, table: torch.nn.Embedding | torch.nn.EmbeddingBag, name: str) -> None:
        """Gradients of a table that could be sparse, each when it is complete: of all that the weight is used for."""
        weight = table.weight
        takes_sparse = not table.scale_grad_by_freq and getattr(table, "mode", "") != "max"
        if table.sparse or not takes_sparse or not any(weight is one for one in self.session.facts.parameters()):
            return
        found = self._tables[id(weight)] = _Table(weight, type(table).__name__, name, here())

        def arrived(gradient: torch.Tensor) -> None:
            begun = time.perf_counter()
            if gradient.layout == torch.strided:
                found.touched.append((gradient != 0).any(1).sum())
            self._backward_s -= time.perf_counter() - begun  # it is in the backward pass

        handle = weight.register_hook(self.guarded(arrived))  # type: ignore[no-untyped-call]
        self.patch.on_undo(handle.remove)

    def fields(self) -> Mapping[str, Any]:
        """`Run.sightings` of batches that are longer than their longest item (`share`: of the forward passes' time); of
        tables with dense gradients (`cost_s`: to make them, on the CPU)."""
        tables = [table for table in self._tables.values() if table.touched]
        found = [table.sighting(self._steps, self._filling_s(table)) for table in tables]
        for (name, spot, shape), seen in self._seen.items():
            batches = [batch for batch, _ in seen]
            # Columns of a table that happen to be constant lie behind rows of one length.
            alike = min(one.shortest for one in batches) == max(one.longest for one in batches)
            share = sum(seconds * (1 - one.longest / one.padded) for one, seconds in seen)
            if share and not alike:
                detail: Mapping[str, Scalar] = {
                    "share": share / self._forward_s,
                    "shape": str(shape),
                    "length": batches[0].padded,
                    "needed": int(median(one.longest for one in batches)),
                    "batches": len(seen),
                }
                kind, per_step = SightingKind.PADDING, len(seen) / max(1, self._steps)
                found.append(Sighting(kind=kind, what=name, **spot.fields(), per_step=per_step, detail=detail))
        return {"sightings": tuple(found)}

    def _filling_s(self, table: _Table) -> float:
        """Of a recorded step, for its gradients; its part where others have its shape."""
        if not self._watches or not self._backward_s:
            return 0.0
        shape = table.weight.shape
        part = self._made_s[shape] / sum(one.weight.shape == shape for one in self._tables.values())
        return self.session.ledger.phase_s()[BACKWARD] * part / self._backward_s


def _padded(given: Sequence[torch.Tensor]) -> tuple[_Batch, tuple[int, ...]] | None:
    """Of sequences and masks, (B, T, ...) or (T, B, ...): the batch of which most could be cut, and its shape."""
    batches: dict[tuple[int, int], list[tuple[_Batch, bool]]] = defaultdict(list)
    shapes = {}
    for tensor in given:
        for rows in (tensor, tensor.transpose(0, 1)):
            # What is the same in all rows (positions) tells of none, and is as long as the others.
            if rows.numel() and rows.shape[1] >= _SHORTEST and not bool((rows[1:] == rows[:1]).all()):
                size = len(rows), rows.shape[1]
                shapes[size] = tuple(tensor.shape)
                batches[size].append(_lengths(rows))
    most = None
    for size, found in batches.items():
        if any(padding for _, padding in found):
            batch = _Batch(size[1], min(one.shortest for one, _ in found), max(one.longest for one, _ in found))
            if most is None or batch.longest / batch.padded < most[0].longest / most[0].padded:
                most = batch, shapes[size]
    return most


def _lengths(rows: torch.Tensor) -> tuple[_Batch, bool]:
    """Of rows that end with one number; and whether that is padding: it hardly occurs in front."""
    num, length = rows.shape[:2]
    other = (rows != rows.reshape(-1)[-1]).reshape(num, length, -1)
    places = torch.arange(1, length + 1, device=rows.device)
    lengths = (other.any(2) * places).amax(1)
    in_front, others = lengths.sum() * other.shape[2], other.sum()
    shortest, longest, within = torch.stack([lengths.min(), lengths.max(), in_front - others]).tolist()
    return _Batch(length, shortest, longest), within <= _WITHIN * int(in_front)

"""The operators of a few steps, one by one: how many in which phase, how much of their time is arithmetic, which do the
same in each step, and which multiply with zeros.

Steps that are looked at alternate with steps that are not: what part of a phase lies in no operator is told from the
same seconds, whatever else the machine did while the recorded steps were made.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from hotlap.predict.trace import kind_of
from hotlap.predict.workload import Kind
from hotlap.probe.clock import PHASES
from hotlap.probe.digests import digest_of, leaves, storages
from hotlap.probe.digests import tensors as tensors_of
from hotlap.probe.event_counter import EventCounter, Spot, here
from hotlap.probe.modes import ObserverMode, name_of, take_off
from hotlap.probe.profilers.operators import dispatch_s
from hotlap.probe.profilers.profiler import Profiler
from hotlap.record import CallFacts, Phase, PhaseCalls, Scalar, Sighting, SightingKind
from hotlap.record.moments import median

# Operators that read memory here and there: bound by it at any rate.
_GATHER = ("embedding", "index", "gather", "scatter")

# An operator "streams" when it moves more than stays in a core's own caches, at a rate near the memory's: at a quarter
# of a plain copy's, since one that reads two tensors and writes one shares it, and pages may be touched the first time.
_LARGE_BYTES = 1 << 20
_NEAR = 0.25

# In a training an operator under the mode takes two to four times as long as the same tiny one in a loop of its own
# (caches are cold): what takes less than this many times its price is a call, and no arithmetic.
_TINY_PRICES = 5.0

_COPY_BYTES = 32 << 20
_REPEATS = 200

_PRODUCTS = frozenset({"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::mv", "aten::addmv"})

# Ours: a product with a smaller matrix takes next to nothing.
_LEAST_ELEMENTS = 1 << 16

# For each element that is not 0 a sparse product (CSR) takes as long as a dense one for 4 to 11: 3000 x 3000 by 64 and
# 64 x 20,000 by 128 of which 0.1 to 3% are filled, forward and backward, one thread, torch 2.13.
_PRICE = 10.0

# Half of the time at least is saved.
_MOST_FILLED = 0.5 / _PRICE

# What fills or copies memory gives what may be written to next, and must be made each time, unless all that comes of it
# is the same.
_FILLS = ("clone", "_like", "::new_", "::empty", "::zeros", "::ones", "::full")

# Medians of five tell a step from one that was disturbed. Of long steps fewer are looked at, but never fewer than two.
_PAIRS = 5


@dataclass(slots=True)
class _Calls:
    """Calls of one operator in one phase on tensors of about one size."""

    num_bytes: int
    seconds: list[float] = field(default_factory=list)


_Key = tuple[Phase, Spot, Any, bool, int, bool]
"""(phase, line, operator, it belongs to the graph, bits of the number of bytes, it makes float64)."""


class Calls(Profiler):
    """WINDOW: steps under a dispatch mode, which sees each operator, those of backward passes too, in turns with plain
    ones. CPU only."""

    num_steps: ClassVar[int] = 2 * _PAIRS
    patience_s: ClassVar[float] = 15.0
    fewest_steps: ClassVar[int] = 4

    def __init__(self) -> None:
        super().__init__()
        self._prices: _Prices | None = None
        self._looked_at = 0
        self._plain: list[Sequence[float]] = []
        """Seconds by phase of each plain step of the window."""

    def steps(self) -> Generator[None]:
        """Learn the prices first; then plain steps and those that are looked at take turns. Of one with a validation
        nothing counts: most of its operators are in no step."""
        session = self.session
        if session.facts.compiled or session.facts.device().type != "cpu" or session.shutdown.is_fork:
            # Of compiled code not each operator is seen; a device works on after its operators return; a fork has none
            # of its parent's threads, and a large copy would wait for them for ever.
            return
        self._prices = prices = _Prices(session.clock.phase, bytes_per_s=_copy_rate())
        for _ in self.paced(at_once=2):
            yield
            if session.clock.last_spent is not None and self.validated() is None:
                self._plain.append(session.clock.last_spent)
            self.put_on(prices.mode)
            yield
            take_off(prices.mode)
            counts = self.validated() is None
            prices.end_step(counts=counts)
            self._looked_at += counts

    def fields(self) -> Mapping[str, Any]:
        """`Run.calls`."""
        if self._prices is None or not self._looked_at:
            return {}
        failures = self._prices.mode.failures
        notes = (f"{failures} calls of operators could not be looked at.",) if failures else ()
        plain_s = {phase: median(spent) for phase, spent in zip(PHASES, zip(*self._plain, strict=True), strict=False)}
        facts = replace(self._prices.facts(self._looked_at), plain_s=plain_s)
        return {"calls": facts, "notes": notes, "sightings": self._prices.sightings()}


class _Prices:
    """What each operator took, by phase and size."""

    def __init__(self, phase: Callable[[], Phase], *, bytes_per_s: float) -> None:
        self.mode = ObserverMode(self._see)
        self._phase = phase
        self._bytes_per_s = bytes_per_s
        self._price_s, self._call_s = 0.0, dispatch_s()
        self._step: list[tuple[_Key, int, float]] = []
        """Of each call in the step in progress also its bytes and seconds."""
        self._seen: dict[_Key, _Calls] = {}
        self._event_counter = EventCounter()
        self._unchanged = _Unchanged()
        self._zeros = _Zeros(self._event_counter)
        self._price_s = median(self._own_price() for _ in range(5))

    def _own_price(self) -> float:
        """What we see a tiny operator take: nothing of that is arithmetic."""
        tiny = torch.zeros(4)
        with self.mode:
            for _ in range(_REPEATS):
                tiny + tiny
        prices = [seconds for *_, seconds in self._step]
        self.end_step(counts=False)
        return median(prices)

    def _see(self, func: Any, args: Any, kwargs: Any, result: Any, seconds: float) -> None:
        """An operator was called."""
        if name_of(func).startswith("profiler::"):
            return
        tensors = tensors_of(args)
        moved = sum(map(_bytes, tensors)) + (_bytes(result) if isinstance(result, torch.Tensor) else 0)
        graph = any(tensor.requires_grad for tensor in tensors) and _belongs_to_graph(func, result)
        double = isinstance(result, torch.Tensor) and result.dtype is torch.float64
        phase, place = self._phase(), here()
        # A backward pass computes what lines of the forward pass have asked for.
        spot = place if phase in (Phase.FORWARD, Phase.OTHER) else None
        self._step.append(((phase, place, func, graph, moved.bit_length(), double), moved, seconds))
        if spot is not None and double and graph and any(one.dtype is torch.float32 for one in tensors):
            self._event_counter.add(SightingKind.PROMOTED, name_of(func), spot, cost_s=seconds)
        self._zeros.saw(name_of(func), tensors, phase, spot, seconds)
        if spot is None:
            self._unchanged.passed((args, kwargs))
        else:
            told = args, kwargs, result
            # Of thousands of tiny ones most is our look: 5.1 us each in place of 2 were seen.
            own_s = self._call_s + max(0.0, seconds - self._price_s)
            self._unchanged.saw(name_of(func), func, phase, spot, graph=graph, told=told, seconds=min(seconds, own_s))

    def end_step(self, *, counts: bool) -> None:
        """The step is over; one that does not count is forgotten."""
        for key, num_bytes, seconds in self._step if counts else ():
            self._seen.setdefault(key, _Calls(num_bytes)).seconds.append(seconds)
        self._step.clear()
        self._unchanged.end_step(counts=counts)
        self._zeros.end_step()
        self._event_counter.end_step(counts=counts)

    def sightings(self) -> tuple[Sighting, ...]:
        """What becomes float64 in a step, and what is the same in each."""
        return *self._unchanged.sightings(self._event_counter.step), *self._event_counter.sightings()

    def facts(self, num_steps: int) -> CallFacts:
        """Each operator counts with the median of its calls: those during which the core was taken away do not."""
        totals: dict[Phase, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        for (phase, _, func, graph, _, double), calls in self._seen.items():
            total = totals[phase]
            number = len(calls.seconds) / num_steps
            arithmetic_s = number * self._arithmetic_s(median(calls.seconds))
            total["calls"] += number
            total["inside_s"] += sum(calls.seconds) / num_steps
            total["arithmetic_s"] += arithmetic_s
            # The script's own beside its model is host-bound's.
            of_model = graph or phase is not Phase.OTHER
            if double and of_model:
                total["double_s"] += arithmetic_s
            if graph:
                total["graph_calls"] += number
                total["graph_s"] += arithmetic_s
                total["graph_inside_s"] += sum(calls.seconds) / num_steps
            if of_model and self._streams(name_of(func).partition("::")[2], calls):
                total["streaming_s"] += arithmetic_s
        phases = {}
        for phase, total in totals.items():
            lines, numbers = self._lines_of(phase, num_steps)
            phases[phase] = PhaseCalls(**total, lines=lines, line_calls=numbers)
        return CallFacts(call_s=self._call_s, phases=phases)

    def _lines_of(self, phase: Phase, num_steps: int) -> tuple[dict[str, float], dict[str, float]]:
        """Line -> seconds a step of its operators, and how many they are."""
        lines: dict[str, float] = {}
        numbers: dict[str, float] = {}
        for (met_in, spot, _, graph, bits, _), calls in self._seen.items():
            of_model = graph if phase is Phase.OTHER else phase in (Phase.FORWARD, Phase.BACKWARD)
            if of_model and met_in is phase and spot.path is not None:
                # To take memory back takes the system up to as long as it took to fill it (rules.host_bound).
                times = 2 if bits >= _LARGE_BYTES.bit_length() else 1
                line = f"{Path(spot.path).resolve()}:{spot.line}"
                number = len(calls.seconds) / num_steps
                lines[line] = lines.get(line, 0.0) + times * median(calls.seconds) * number
                numbers[line] = numbers.get(line, 0.0) + number
        return lines, numbers

    def _arithmetic_s(self, seconds: float) -> float:
        return seconds - self._price_s if seconds >= _TINY_PRICES * self._price_s else 0.0

    def _streams(self, name: str, calls: _Calls) -> bool:
        seconds = self._arithmetic_s(median(calls.seconds))
        if kind_of(name) is not Kind.VECTOR or seconds <= 0 or calls.num_bytes < _LARGE_BYTES:
            return False
        gathers = any(part in name for part in _GATHER)
        return gathers or calls.num_bytes / seconds >= _NEAR * self._bytes_per_s


def _belongs_to_graph(func: Any, result: Any) -> bool:
    """Of an operator on tensors that require gradients: it makes what a gradient can go through, or updates them by
    hand. Reading a loss (`.item()`), counting hits (`argmax`, `==`), metrics under `no_grad` and `detach`, of which
    `state_dict()` is made, do neither."""
    if not torch.is_grad_enabled():
        # Higher-order operators (cond, flex_attention) have no schema; they write into nothing.
        schema = getattr(func, "_schema", None)
        return schema is not None and bool(schema.is_mutable)
    if name_of(func) == "aten::detach":
        return False
    made = result if isinstance(result, tuple | list) else (result,)
    return any(isinstance(one, torch.Tensor) and (one.is_floating_point() or one.is_complex()) for one in made)


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size() if tensor.layout == torch.strided else 0


def _copy_rate() -> float:
    """Bytes a second, read and written, of a plain copy."""
    source, target = torch.zeros(_COPY_BYTES, dtype=torch.uint8), torch.zeros(_COPY_BYTES, dtype=torch.uint8)
    best_s = float("inf")
    for _ in range(3):
        begun = time.perf_counter()
        target.copy_(source)
        best_s = min(best_s, time.perf_counter() - begun)
    return 2 * _COPY_BYTES / best_s


_Repeated = tuple[Phase, Spot, Any, int]
"""(phase, line, operator, which of these in the step)."""


@dataclass(slots=True)
class _Same:
    name: str
    digest: bytes | None
    """None: it differed."""
    seconds: list[float] = field(default_factory=list)
    counts: bool = True
    """It could be made once, in all steps so far."""


class _Unchanged:
    """Which operators are given the same, and make the same of it, in each step."""

    def __init__(self) -> None:
        self._seen: dict[_Repeated, _Same] = {}
        self._step: dict[_Repeated, tuple[str, bytes, float, frozenset[StorageWeakRef]]] = {}
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
        """An operator; `told`: what it was given, and made. `seconds`: with the call, which goes with it, without our
        look. (To hash 3 MB takes 0.3 ms; what differed once is not hashed again.)"""
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
                if same:
                    detail: Mapping[str, Scalar] = {"phase": phase, "steps": num_steps}
                    found.add(SightingKind.UNCHANGED, seen.name, spot, cost_s=seen.seconds[step], detail=detail)
            found.end_step()
        return found.sightings()


def _writes(func: Any) -> bool:
    """Into what it is given; higher-order operators (cond, flex_attention) have no schema."""
    schema = getattr(func, "_schema", None)
    return schema is None or bool(schema.is_mutable)


class _Zeros:
    """Products with matrices of data that are nearly all 0: what a sparse one would save. Of results of the model (an
    activation, a dropout) it says nothing."""

    def __init__(self, event_counter: EventCounter) -> None:
        self._event_counter = event_counter
        self._step: dict[StorageWeakRef, tuple[Spot | None, float, str]] = {}
        """Of matrices in the step in progress: the line that multiplies with it first, the part that is not 0, and the
        shape."""

    def saw(self, name: str, given: Iterable[torch.Tensor], phase: Phase, spot: Spot | None, seconds: float) -> None:
        """An operator. A backward pass multiplies with what the forward pass had (turned), in no line of its own."""
        for matrix in given if name in _PRODUCTS else ():
            if matrix.numel() < _LEAST_ELEMENTS or matrix.layout is not torch.strided:
                continue
            (storage,) = storages([matrix])
            if storage not in self._step and spot is not None and not matrix.requires_grad:
                filled = int(torch.count_nonzero(matrix)) / matrix.numel()
                self._step[storage] = spot, filled, " x ".join(map(str, matrix.shape))
            place, filled, shape = self._step.get(storage, (None, 0.0, ""))
            if place is not None and 0 < filled <= _MOST_FILLED:
                detail: Mapping[str, Scalar] = {"phase": phase, "filled": filled, "shape": shape}
                cost_s = seconds * (1 - _PRICE * filled)
                self._event_counter.add(
                    SightingKind.ZEROS, f"{name} ({phase.value})", place, cost_s=cost_s, detail=detail
                )

    def end_step(self) -> None:
        """What comes next is of another step."""
        self._step.clear()

"""The operators of a few steps, one by one: how many in which phase, and how much of their time is arithmetic."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from hotlap.levers.lever import Patch
from hotlap.probe import modes
from hotlap.probe.watches.watch import Watch
from hotlap.record import CallFacts, Phase, PhaseCalls

if TYPE_CHECKING:
    from hotlap.probe.session import Session

# Operators that compute much for each number they read: matrix products, convolutions, recurrent layers, attention.
_DENSE = ("mm", "addmm", "bmm", "baddbmm", "addbmm", "dot", "mv", "convolution", "conv", "linear", "rnn", "lstm", "gru",
          "attention", "cholesky", "linalg", "fft")  # fmt: skip

# Operators that read memory here and there: bound by it at any rate.
_GATHER = ("embedding", "index", "gather", "scatter")

# An operator "streams" when it moves more than stays in a core's own caches, at a rate near the memory's: at a quarter
# of a plain copy's, since one that reads two tensors and writes one shares it, and pages may be touched the first time.
_LARGE_BYTES = 1 << 20
_NEAR = 0.25

_COPY_BYTES = 32 << 20


@dataclass(slots=True)
class _Sum:
    calls: int = 0
    arithmetic_s: float = 0.0
    graph_calls: int = 0
    graph_s: float = 0.0
    streaming_s: float = 0.0


class Calls(Watch):
    """WINDOW: steps under a dispatch mode, which sees each operator, those of backward passes too. CPU only."""

    num_steps: ClassVar[int] = 5

    def __init__(self) -> None:
        self._session: Session | None = None
        self._mode: _Mode | None = None
        self._facts: CallFacts | None = None

    def install(self, session: "Session", patch: Patch) -> None:
        """Nothing to hook: the window does it all."""
        self._session = session

    def open(self) -> None:
        """Learn the prices first, then look."""
        assert self._session is not None
        if self._session.facts.compiled or _on_a_device(self._session):
            return  # of compiled code not each operator is seen; a device works on after its operators return
        mode = _Mode(self._session.clock.phase, bytes_per_s=_copy_rate())
        modes.put_on(mode)
        self._mode = mode

    def goes_on(self, num_steps: int) -> bool:
        """Keep the steps apart: one during which the machine was elsewhere must not speak for the others."""
        if self._mode is not None and num_steps:
            self._mode.next_step()
        return self._mode is not None

    def close(self, num_steps: int) -> None:
        """Out of the script's way again."""
        mode, self._mode = self._mode, None
        if mode is None:
            return
        modes.take_off(mode)
        mode.next_step()
        if num_steps:
            self._facts = mode.facts()

    def fields(self) -> Mapping[str, Any]:
        """`Run.calls`."""
        return {} if self._facts is None else {"calls": self._facts}


class _Mode(modes.Onlooker):
    def __init__(self, phase: Callable[[], Phase], *, bytes_per_s: float) -> None:
        super().__init__()
        self._phase = phase
        self._bytes_per_s = bytes_per_s
        self._price_s = 0.0
        self._sums: dict[Phase, _Sum] = {}
        self._steps: list[dict[Phase, _Sum]] = []
        self._kinds: dict[Any, str] = {}
        with self:
            self._price_s = median(_price(_tiny) for _ in range(5))
        self._sums.clear()
        self._call_s = median(_price(_tiny_graph) for _ in range(5))
        self._sums.clear()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        begun = time.perf_counter()
        result = func(*args, **(kwargs or {}))
        self._add(func, time.perf_counter() - begun, args, result)
        return result

    def _add(self, function: Any, seconds: float, args: Any, result: Any) -> None:
        kind = self._kinds.get(function)
        if kind is None:
            kind = self._kinds[function] = _kind(str(function))
        if kind == "none":
            return
        total = self._sums.setdefault(self._phase(), _Sum())
        arithmetic_s = max(0.0, seconds - self._price_s)
        tensors = [value for value in args if isinstance(value, torch.Tensor)]
        total.calls += 1
        total.arithmetic_s += arithmetic_s
        if any(tensor.requires_grad for tensor in tensors):
            total.graph_calls += 1
            total.graph_s += arithmetic_s
        if kind != "dense" and arithmetic_s > 0:
            moved = sum(map(_bytes, tensors)) + (_bytes(result) if isinstance(result, torch.Tensor) else 0)
            if moved >= _LARGE_BYTES and (kind == "gather" or moved / arithmetic_s >= _NEAR * self._bytes_per_s):
                total.streaming_s += arithmetic_s

    def next_step(self) -> None:
        if self._sums:
            self._steps.append(self._sums)
        self._sums = {}

    def facts(self) -> CallFacts:
        """Medians over the steps."""
        phases = sorted({phase for step in self._steps for phase in step})
        return CallFacts(
            num_steps=len(self._steps),
            call_s=self._call_s,
            phases={phase: _medians([step.get(phase, _Sum()) for step in self._steps]) for phase in phases},
        )


def _medians(sums: list[_Sum]) -> PhaseCalls:
    return PhaseCalls(
        calls=median(total.calls for total in sums),
        arithmetic_s=median(total.arithmetic_s for total in sums),
        graph_calls=median(total.graph_calls for total in sums),
        graph_s=median(total.graph_s for total in sums),
        streaming_s=median(total.streaming_s for total in sums),
    )


def _kind(name: str) -> str:
    """Of an operator: "dense", "gather", "other", or "none" (no operator, or one that moves no data)."""
    if name.startswith("profiler."):
        return "none"
    parts = name.split(".")[1].strip("_").split("_") if "." in name else [name]
    if any(part in _DENSE for part in parts):
        return "dense"
    return "gather" if any(part in _GATHER for part in parts) else "other"


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size() if tensor.layout == torch.strided else 0


_REPEATS = 200


def _price(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    for _ in range(_REPEATS):
        work()
    return (time.perf_counter() - begun) / _REPEATS


_TINY = torch.zeros(4)
_TINY_LEAF = torch.zeros(4, requires_grad=True)


def _tiny() -> torch.Tensor:
    return _TINY + _TINY


def _tiny_graph() -> torch.Tensor:
    with torch.enable_grad():
        return _TINY_LEAF * _TINY_LEAF


def _copy_rate() -> float:
    """Bytes a second, read and written, of a plain copy."""
    source, target = torch.zeros(_COPY_BYTES, dtype=torch.uint8), torch.zeros(_COPY_BYTES, dtype=torch.uint8)
    best_s = float("inf")
    for _ in range(3):
        begun = time.perf_counter()
        target.copy_(source)
        best_s = min(best_s, time.perf_counter() - begun)
    return 2 * _COPY_BYTES / best_s


def _on_a_device(session: "Session") -> bool:
    return any(
        parameter.device.type != "cpu"
        for optimizer in session.facts.optimizers()
        for group in optimizer.param_groups
        for parameter in group["params"][:1]
    )

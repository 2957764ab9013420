"""deferred-scalars: sums of losses stay on the device until they are printed."""

import ast
import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar, final

from hotlap.levers.accumulations import sums
from hotlap.levers.lever import Lever, Numerics, Patch, Scope, cannot_write
from hotlap.record import Ceiling, Machine, Phase, Run
from hotlap.source import Edit, ReplaceCall, Script, WrapName, parsed, scripts


@final
@dataclass(frozen=True, slots=True)
class DeferredScalars(Lever):
    """Adds losses up on the device: `total += loss.item()` becomes `total += loss.detach().double()`.

    What: where the sum itself is read it becomes a number again, `float(total)`. Numbers of right answers
    (`correct += (pred == y).sum().item()`) likewise.
    Why: `.item()` waits until the device has done all that was asked of it, so the host cannot prepare the next step
    meanwhile (PyTorch's tuning guide, "avoid unnecessary CPU-GPU synchronization").
    When it hurts: an error on the device, or a loss that is NaN, is seen later. The sum is taken in float64, as Python
    takes it, so what is printed stays the same to the last bit. It is left alone where the sum is read in each step
    or decides something there, where the loop waits for the device in other lines as well (then nothing is won), and
    where it cannot be told who reads the variable.
    """

    name: ClassVar[str] = "deferred-scalars"
    scope: ClassVar[Scope] = Scope.PROCESS
    numerics: ClassVar[Numerics] = Numerics.EXACT

    def rejects(self, run: Run, machine: Machine) -> str | None:
        """Where the model runs, then whether there is such a sum."""
        if run.device == "cpu":
            return "The model is on the CPU, where reading a value waits for nothing."
        if run.device == "mps":
            return "This device has no float64, which such a sum needs."
        return cannot_write(
            self,
            run,
            "No loop of the script's reads a value of each step only to add it up, without other waits for the device.",
        )

    def saves_at_most_s(self, run: Run, ceilings: Sequence[Ceiling]) -> float:
        """All waiting for the device."""
        return 0.0 if run.device == "cpu" else run.mean_phase_s(Phase.SYNC) or 0.0

    def install(self, patch: Patch) -> None:
        """`.item()` on the lines concerned gives a number that is read when it is needed."""
        import torch

        item = torch.Tensor.item

        def deferred(self: Any) -> Any:
            caller = sys._getframe(1)
            if caller.f_lineno in _lines(caller.f_code.co_filename):
                return Deferred(self.detach().double() if self.is_floating_point() else self.detach())
            return item(self)

        patch.set(torch.Tensor, "item", deferred)
        main = sys.modules.get("__main__")
        if main is not None and any(_calls_float(getattr(main, "__file__", None) or "")):
            patch.set(main, "float", _deferring_float(item))

    def edits(self, run: Run) -> Sequence[Edit]:
        """At each reading of a value, and of a sum."""
        return tuple(edit for script in scripts(run) for edit in _edits(script))


def _edits(script: Script) -> Iterator[Edit]:
    for one in sums(script):
        for call, code in zip(one.calls, one.codes, strict=True):
            yield ReplaceCall(site=script.site(call, calls="item"), code=code)
        for name in one.reads:
            yield WrapName(site=script.site(name, calls=one.variable), function=one.number)


@lru_cache(maxsize=1024)
def _lines(path: str) -> frozenset[int]:
    """CHILD: lines of a file that read a value which can be put off."""
    return frozenset(call.lineno for call in _calls(path) if isinstance(call.func, ast.Attribute))


def _calls(path: str) -> Iterator[ast.Call]:
    if not path.endswith((".py", ".pyw")) or "site-packages" in path:
        return
    try:
        data = Path(path).read_bytes()
        script = parsed(path, sha256(data).hexdigest(), data.decode())
    except (OSError, UnicodeDecodeError):
        return
    for one in sums(script) if script is not None else ():
        yield from one.calls


def _calls_float(path: str) -> Iterator[int]:
    """Lines on which `float(loss)` reads such a value."""
    return (call.lineno for call in _calls(path) if isinstance(call.func, ast.Name))


def _deferring_float(item: Callable[[Any], Any]) -> type:
    """CHILD: stands before `float` in the main script."""
    lines = frozenset(_calls_float(getattr(sys.modules["__main__"], "__file__", "")))

    class Meta(type):
        def __call__(cls, value: Any = 0.0) -> Any:
            if sys._getframe(1).f_lineno in lines and hasattr(value, "detach"):
                return Deferred(value.detach().double())
            return float(value)

        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, float)

    return Meta("float", (float,), {})


class Deferred:
    """CHILD: a number on the device that can be added up there; whatever else is asked of it, is asked of its value."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor

    def value(self) -> Any:
        """The number itself, which waits for the device."""
        return self._tensor.tolist()

    def __add__(self, other: Any) -> Any:
        return self._with(operator.add, other)

    def __mul__(self, other: Any) -> Any:
        return self._with(operator.mul, other)

    def __truediv__(self, other: Any) -> Any:
        return self._with(operator.truediv, other) if self._tensor.is_floating_point() else self.value() / other

    __radd__ = __iadd__ = __add__

    def __getattr__(self, name: str) -> Any:
        return getattr(self.value(), name)

    def _with(self, do: Callable[[Any, Any], Any], other: Any) -> Any:
        if isinstance(other, Deferred):
            return Deferred(do(self._tensor, other._tensor))
        return Deferred(do(self._tensor, other)) if isinstance(other, int | float) else do(self.value(), other)


def _asked(name: str) -> Callable[..., Any]:
    def method(self: Deferred, *args: Any) -> Any:
        return getattr(self.value(), name)(*(arg.value() if isinstance(arg, Deferred) else arg for arg in args))

    return method


# What Python looks up in a class only.
for _name in (
    *("float", "int", "bool", "str", "repr", "format", "round", "abs", "neg", "hash"),
    *("eq", "ne", "lt", "le", "gt", "ge", "sub", "rsub", "rmul", "rtruediv", "pow", "floordiv", "mod"),
):
    setattr(Deferred, f"__{_name}__", _asked(f"__{_name}__"))

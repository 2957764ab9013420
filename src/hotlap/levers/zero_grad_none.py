"""zero-grad-none: gradients are dropped instead of filled with zeros."""

import ast
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

from hotlap.levers.lever import Lever, Numerics, Patch, Scope, cannot_write
from hotlap.record import Ceiling, Machine, Phase, Run
from hotlap.source import Edit, ReplaceCall, Script, scripts


@final
@dataclass(frozen=True, slots=True)
class ZeroGradNone(Lever):
    """`zero_grad(set_to_none=False)` becomes `zero_grad()`, whose default is None.

    What: the next backward pass then puts its gradient in place instead of adding it to zeros.
    Why: a write, a read and an addition less for each parameter (PyTorch's tuning guide, "set_to_none").
    When it hurts: code that looks at `.grad` between the two finds None. A parameter that gets no gradient in a step is
    then left alone by the optimizer, where with zeros its momentum and weight decay went on: the losses differ, and the
    gate, which holds this lever to bit-equal losses, refuses it. A loop over `p.grad.zero_()` is left as it is.
    """

    name: ClassVar[str] = "zero-grad-none"
    scope: ClassVar[Scope] = Scope.STEP
    numerics: ClassVar[Numerics] = Numerics.EXACT

    def rejects(self, run: Run, machine: Machine) -> str | None:
        """Does the script ask for zeros?"""
        if not run.optimizers:
            return "The script uses no torch optimizer."
        return cannot_write(self, run, "No call of zero_grad in the script's own source asks for zeros.")

    def saves_at_most_s(self, run: Run, ceilings: Sequence[Ceiling]) -> float:
        """Filling is a part of the optimizer's phase, adding one of the backward pass: the optimizer's twice."""
        backward_s, optimizer_s = (run.mean_phase_s(phase) or 0.0 for phase in (Phase.BACKWARD, Phase.OPTIMIZER))
        return min(backward_s, optimizer_s) + optimizer_s

    def install(self, patch: Patch) -> None:
        """Whatever is asked for."""
        import torch

        def dropping(zero_grad: Any) -> Any:
            @functools.wraps(zero_grad)
            def wrapper(self: Any, set_to_none: bool = True) -> Any:
                return zero_grad(self, set_to_none=True)

            return wrapper

        for kind in (torch.optim.Optimizer, torch.nn.Module):
            patch.set(kind, "zero_grad", dropping(kind.zero_grad))

    def edits(self, run: Run) -> Sequence[Edit]:
        """At each call."""
        return tuple(edit for script in scripts(run) for edit in _edits(script))


def _edits(script: Script) -> Iterator[Edit]:
    for call in script.methods("zero_grad"):
        given = [*call.args, *(word.value for word in call.keywords if word.arg == "set_to_none")]
        if len(given) == len(call.args) + len(call.keywords) == 1 and _is_false(given[0]):
            yield ReplaceCall(site=script.site(call, calls="zero_grad"), code=f"{script.code(call.func)}()")


def _is_false(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is False

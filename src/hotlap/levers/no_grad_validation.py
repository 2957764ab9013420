"""no-grad-validation: forward passes that nobody differentiates keep nothing for a backward pass."""

import ast
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, ClassVar, Self, final

from hotlap.levers.lever import Lever, Numerics, Patch, Scope, cannot_write
from hotlap.record import CallSite, Ceiling, Machine, Run, Sighting, SightingKind
from hotlap.source import Edit, Script, WrapStatement, scripts
from hotlap.units import duration

_SIMPLE = (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return)

# What runs at another time, or more than once, when the statement around it runs.
_DEFERRED = (ast.Lambda, ast.GeneratorExp, ast.Await, ast.Yield, ast.YieldFrom)

# Frames between the call of a module and the line that calls it: the wrappers around Module.__call__, ours included.
_MOST_FRAMES = 8


@final
@dataclass(frozen=True, slots=True)
class NoGradValidation(Lever):
    """Runs a validation's forward passes under `torch.no_grad()`.

    What: the statement that calls the model moves into `with torch.no_grad():`.
    Why: without it each operator keeps its inputs for a backward pass that never comes: memory, and time to free it
    (PyTorch's tuning guide, "disable gradient calculation for validation or inference").
    When it hurts: a result that does reach a backward pass would lose its gradient. So it is used only on a line of
    which the probe saw that no gradient ever came back, and only if the model is called elsewhere, too; should training
    use that line as well, its backward pass fails and the trial says so. Attention
    in evaluation mode takes another kernel without gradients, so the printed validation loss may differ by rounding;
    training does not.
    """

    name: ClassVar[str] = "no-grad-validation"
    scope: ClassVar[Scope] = Scope.STEP
    numerics: ClassVar[Numerics] = Numerics.EXACT

    line: int = 0
    """Line of the main script that calls the model in vain."""

    @classmethod
    def candidates(cls, run: Run, machine: Machine) -> Sequence[Self]:
        """One for each line, costliest first."""
        lines = {seen.line or 0: seen.cost_s or 0.0 for seen in _wasted(run)}
        return tuple(cls(line=line) for line in sorted(lines, key=lambda line: -lines[line])) or (cls(),)

    def rejects(self, run: Run, machine: Machine) -> str | None:
        """Was such a line seen, and is it not one of training's own?"""
        if not any(seen.line == self.line for seen in _wasted(run)):
            return "No forward pass was seen whose result never reaches a backward pass, on a line of the main script."
        if run.num_validations and all(
            seen.detail.get("evaluation") for seen in _wasted(run) if seen.line == self.line
        ):
            return (
                f"Line {self.line} validates with gradients on, between steps ({duration(run.validation_s)} in "
                f"{run.num_validations}); trials compare steps, so put it under torch.no_grad() by hand."
            )
        if not any(_trains(site, self.line) for site in run.call_sites):
            return f"Training calls the model in line {self.line}, too: it is called nowhere else."
        return cannot_write(self, run, f"The call in line {self.line} is not in a statement of its own.")

    def saves_at_most_s(self, run: Run, ceilings: Sequence[Ceiling]) -> float:
        """What these passes take a step, as far as they are in steps: a validation between two steps is in none."""
        spent_s = sum(seen.cost_s or 0.0 for seen in _wasted(run) if seen.line == self.line)
        mean_s = sum(run.step_s) / len(run.step_s) if run.step_s else 0.0
        return min(spent_s, mean_s)

    def install(self, patch: Patch) -> None:
        """Outermost calls of modules from that line of the main script."""
        import torch

        main = vars(sys.modules["__main__"])
        call = torch.nn.Module.__call__
        inside = [False]
        line = self.line

        def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 - it becomes that method
            if inside[0] or torch.compiler.is_compiling() or not _comes_from(main, line):
                return call(self, *args, **kwargs)
            inside[0] = True
            try:
                with torch.no_grad():
                    return call(self, *args, **kwargs)
            finally:
                inside[0] = False

        patch.set(torch.nn.Module, "__call__", __call__)

    def edits(self, run: Run) -> Sequence[Edit]:
        """A `with` around the statement."""
        if not any(seen.line == self.line for seen in _wasted(run)):
            return ()
        main = scripts(run)[0]
        call = _call_at(main, self.line)
        if call is None:
            return ()
        site = main.site(call, calls="forward")
        return (WrapStatement(site=site, header="with torch.no_grad()", imports="import torch"),)


def _wasted(run: Run) -> list[Sighting]:
    """Passes in vain on lines of the main script."""
    main = next(iter(run.sources), None)
    return [seen for seen in run.sightings if seen.kind is SightingKind.WASTED_FORWARD and _is(main, seen.path)]


def _is(main: str | None, path: str | None) -> bool:
    """A frame names its file as the interpreter was given it, which may be relative to where it was started."""
    if main is None or path is None:
        return False
    return main == path or (not PurePath(path).is_absolute() and PurePath(main).match(path))


def _trains(site: CallSite, line: int) -> bool:
    """A call of a model with gradients that is not the one on this line."""
    here = site.line <= line <= site.end_line
    return site.calls == "forward" and bool(site.detail.get("parameters")) and not here


def _call_at(script: Script, line: int) -> ast.Call | None:
    """A call in a simple statement that goes over the line, and that runs when the statement does."""
    for call in script.all_calls():
        if not call.lineno <= line <= (call.end_lineno or call.lineno):
            continue
        around = []
        for node in script.around(call):
            around.append(node)
            if isinstance(node, ast.stmt):
                break
        if isinstance(around[-1], _SIMPLE) and not any(isinstance(node, _DEFERRED) for node in around):
            return call
    return None


def _comes_from(main: dict[str, Any], line: int) -> bool:
    """The nearest frame of the main script is at that line."""
    frame = sys._getframe(2)
    for _ in range(_MOST_FRAMES):
        if frame.f_globals is main:
            return frame.f_lineno == line
        if frame.f_back is None:
            return False
        frame = frame.f_back
    return False

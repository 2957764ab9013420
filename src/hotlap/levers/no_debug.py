"""no-debug: switches for finding faults are off while training."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

from hotlap.levers.lever import Lever, Numerics, Patch, Scope, arithmetic_s, cannot_write, script_sha256
from hotlap.record import Ceiling, Machine, Run
from hotlap.source import Edit, InsertAfterImports, ReplaceCall, Script, scripts

_SET_ANOMALY = ("torch.autograd.set_detect_anomaly", "torch.autograd.anomaly_mode.set_detect_anomaly")
_WITH_ANOMALY = ("torch.autograd.detect_anomaly", "torch.autograd.anomaly_mode.detect_anomaly")
_SET_SYNC = ("torch.cuda.set_sync_debug_mode",)

_FILL = "torch.utils.deterministic.fill_uninitialized_memory = False"


@final
@dataclass(frozen=True, slots=True)
class NoDebug(Lever):
    """Switches off anomaly mode and CUDA's sync warnings, and the filling of fresh memory in deterministic mode.

    What: `set_detect_anomaly(True)` and `with detect_anomaly()` become `set_detect_anomaly(False)`;
    `set_sync_debug_mode` is set to 0; under deterministic algorithms fresh memory is no longer filled with NaN
    (`torch.utils.deterministic.fill_uninitialized_memory`). Deterministic algorithms themselves stay on: without them
    sums are taken in another order, and not in the same one each time, which is not for a lever to decide.
    Why: anomaly mode keeps a stack trace of each forward operator and looks for NaN behind each backward one. PyTorch's
    tuning guide lists it among what to switch off for training
    (pytorch/tutorials, recipes_source/recipes/tuning_guide.py).
    When it hurts: a NaN in a gradient raises no error any more; it shows in the losses only. A profiler that the script
    runs is left alone, because its output would be lost, and so is CUDA_LAUNCH_BLOCKING, which is set outside.
    """

    name: ClassVar[str] = "no-debug"
    scope: ClassVar[Scope] = Scope.STEP
    numerics: ClassVar[Numerics] = Numerics.EXACT

    def rejects(self, run: Run, machine: Machine) -> str | None:
        """Is anything on, and is it switched by a constant, in the script's own source?"""
        switches = run.switches
        if switches is None:
            return "It was not looked at which switches are on."
        if not (switches.anomaly_mode or switches.deterministic or switches.sync_debug):
            if switches.profiler:
                return "The script runs a profiler of its own; its output would be lost, so take it out by hand."
            if switches.launch_blocking:
                return "CUDA_LAUNCH_BLOCKING is set outside of the script; unset it there."
            return "No switch for finding faults is on."
        return cannot_write(self, run, "What is on was not switched on by a constant in the script's own source.")

    def saves_at_most_s(self, run: Run, ceilings: Sequence[Ceiling]) -> float:
        """All that operators take: each is watched."""
        switches = run.switches
        on = switches is not None and (switches.anomaly_mode or switches.deterministic or switches.sync_debug)
        return arithmetic_s(run) if on else 0.0

    def install(self, patch: Patch) -> None:
        """Off, and it stays off whatever the script asks for; what it asked for holds again afterwards."""
        import torch
        from torch.utils import deterministic as module

        set_anomaly = torch.set_anomaly_enabled
        wanted = [(torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled())]

        def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
            wanted[0] = (mode, check_nan)

        set_anomaly(False)
        patch.on_undo(lambda: set_anomaly(*wanted[0]))
        patch.set(torch, "set_anomaly_enabled", set_anomaly_enabled)

        deterministic: Any = module  # its attribute is a property that types do not know
        fill = deterministic.fill_uninitialized_memory
        deterministic.fill_uninitialized_memory = False
        patch.on_undo(lambda: setattr(deterministic, "fill_uninitialized_memory", fill))

        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            mode = torch.cuda.get_sync_debug_mode()
            torch.cuda.set_sync_debug_mode(0)
            patch.on_undo(lambda: torch.cuda.set_sync_debug_mode(mode))

    def edits(self, run: Run) -> Sequence[Edit]:
        """Each call that switches something on by a constant; one that asks a variable is the script's own affair."""
        switches = run.switches
        if switches is None:
            return ()
        found: list[Edit] = []
        for script in scripts(run):
            if switches.anomaly_mode:
                found += _off(script, _SET_ANOMALY, "torch.autograd.set_detect_anomaly(False)")
                found += _off(script, _WITH_ANOMALY, "torch.autograd.set_detect_anomaly(False)", always=True)
            if switches.sync_debug:
                found += _off(script, _SET_SYNC, "torch.cuda.set_sync_debug_mode(0)")
        main = script_sha256(run)
        if switches.deterministic and main is not None:
            found.append(InsertAfterImports(path=main[0], sha256=main[1], code=_FILL, imports="import torch"))
        return found


def _off(script: Script, names: Sequence[str], code: str, *, always: bool = False) -> Iterator[Edit]:
    """Calls that are given a constant. `always`: the call switches on whatever it is given."""
    for call in script.calls(*names):
        given = [*call.args[:1], *(word.value for word in call.keywords if word.arg == "mode")]
        on = always or any(isinstance(value, ast.Constant) for value in given)
        if on:
            yield ReplaceCall(site=script.site(call, calls=names[0]), code=code, imports="import torch")

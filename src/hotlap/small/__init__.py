"""Small networks and neural ODEs, trained natively on the CPU on the user's own tensors."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hotlap.small.neural_ode import NeuralODE as NeuralODE
    from hotlap.small.program import Unsupported as Unsupported
    from hotlap.small.script_solves import native_odeint as native_odeint
    from hotlap.small.script_steps import native_steps as native_steps
    from hotlap.small.solve import NativeSolveSkipped as NativeSolveSkipped
    from hotlap.small.solve import SolveFailed as SolveFailed
    from hotlap.small.solve import odeint as odeint
    from hotlap.small.step import CompiledStep as CompiledStep
    from hotlap.small.step import compile_step as compile_step

_HOME = {
    "CompiledStep": "step",
    "NativeSolveSkipped": "solve",
    "NeuralODE": "neural_ode",
    "SolveFailed": "solve",
    "Unsupported": "program",
    "compile_step": "step",
    "native_odeint": "script_solves",
    "native_steps": "script_steps",
    "odeint": "solve",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    """The public names, imported when first used: torch is not loaded before that."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)

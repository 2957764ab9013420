"""Small networks and neural ODEs, trained natively on the CPU on the user's own tensors."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hotlap.small.program import Unsupported as Unsupported
    from hotlap.small.step import CompiledStep as CompiledStep
    from hotlap.small.step import compile_step as compile_step

_HOME = {"Unsupported": "program", "CompiledStep": "step", "compile_step": "step"}

__all__ = ["CompiledStep", "Unsupported", "compile_step"]


def __getattr__(name: str) -> Any:
    """The public names, imported when first used: torch is not loaded before that."""
    from importlib import import_module

    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)

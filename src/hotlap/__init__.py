"""hotlap: finds what each PyTorch training step waits for, tries what makes it faster, and proves it."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hotlap.data import cached as cached

__version__ = "0.1.0"
__all__ = ["__version__", "cached"]

# Public name -> the module that has it. Resolved on first use: `import hotlap` must not import torch.
_HOMES = {"cached": "hotlap.data"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'hotlap' has no attribute {name!r}")

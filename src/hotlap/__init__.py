"""hotlap: makes PyTorch training scripts faster, and proves it."""

from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hotlap.cli.notebook import measure as measure
    from hotlap.cli.notebook import tune as tune
    from hotlap.data import cached as cached
    from hotlap.trace import read_trace as read_trace

__version__ = "0.1.0"
__all__ = ["__version__", "cached", "measure", "read_trace", "tune"]

# Public name -> the module that has it. Resolved on first use: `import hotlap` must not import torch.
_HOMES = {
    "cached": "hotlap.data",
    "measure": "hotlap.cli.notebook",
    "read_trace": "hotlap.trace",
}


class Tune(ModuleType):
    """The part of that name, which is a public function as well: `hotlap.tune("train.py")`."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from hotlap.cli import notebook

        return notebook.tune(*args, **kwargs)


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name == "tune":
        return import_module("hotlap.tune")
    raise AttributeError(f"module 'hotlap' has no attribute {name!r}")

"""One file a profiler: what is looked at beside the clock, by its name in a plan."""

from importlib import import_module
from pkgutil import iter_modules

from hotlap.probe.profilers.profiler import Profiler

NAMES = frozenset(one.name.replace("_", "-") for one in iter_modules(__path__)) - {"profiler"}


def named(name: str) -> type[Profiler]:
    """The one that stands in the file of that name; imported only for a run that has it."""
    module = import_module(f"{__name__}.{name.replace('-', '_')}")
    kinds = (one for one in vars(module).values() if isinstance(one, type) and issubclass(one, Profiler))
    return next(kind for kind in kinds if kind.__module__ == module.__name__)

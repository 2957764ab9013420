"""What each lever is: when it applies, what it can save, how it is switched, how it reads as source."""

from abc import ABC
from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import msgspec

from hotlap.errors import UserError, nearest
from hotlap.levers.batch_size import BatchSize
from hotlap.levers.lever import Lever, Numerics, Patch, Scope
from hotlap.record import LeverSpec, Run
from hotlap.source import Edit

__all__ = [
    "ALL",
    "RECIPES",
    "BatchSize",
    "Lever",
    "Numerics",
    "Patch",
    "Scope",
    "by_name",
    "edits_of",
    "environment_of",
    "from_spec",
    "imports_hotlap",
]

ALL: tuple[type[Lever], ...]
"""In the order in which they are tried where their bounds are equal, and in which their edits are made."""

RECIPES: tuple[type[Lever], ...]
"""Those that change the training itself; tried on request only (`hotlap tune --allow`)."""


def __getattr__(name: str) -> Any:
    """`ALL` and `RECIPES`, when they are asked for: a process of the user's without a lever imports none."""
    if name in ("ALL", "RECIPES"):
        return tuple(kind for kind in _kinds() if (kind.numerics is Numerics.RECIPE) == (name == "RECIPES"))
    raise AttributeError(name)


@cache
def _kinds() -> tuple[type[Lever], ...]:
    """Those of the files of this folder."""
    modules = [import_module(f"{__name__}.{one.name}") for one in iter_modules(__path__)]
    found = [value for module in modules for value in vars(module).values()]
    kinds = {kind for kind in found if isinstance(kind, type) and issubclass(kind, Lever) and ABC not in kind.__bases__}
    return tuple(sorted(kinds, key=lambda kind: (_SCOPES.index(kind.scope), kind.name)))


# Where bounds are equal, what is larger by experience comes first, and then what is cheaper to compare.
_SCOPES = (Scope.LOADER, Scope.STEP, Scope.PROCESS)


def edits_of(stack: Iterable[LeverSpec], run: Run) -> list[Edit]:
    """The edits of several levers, in the order of `ALL`: the source is the same in whatever order they were accepted.

    Raises:
        UserError: a lever or a setting is unknown; a file is missing or changed since.
    """
    chosen = sorted(map(from_spec, stack), key=lambda lever: _kinds().index(type(lever)))
    return [edit for lever in chosen for edit in lever.edits(run)]


def imports_hotlap(spec: LeverSpec, run: Run) -> bool:
    """The script needs hotlap when it runs with what this lever writes.

    Raises:
        UserError: as `edits_of`.
    """
    return any(edit.imports.startswith("from hotlap.") for edit in from_spec(spec).edits(run))


def environment_of(stack: Iterable[LeverSpec], environ: Mapping[str, str]) -> dict[str, str]:
    """Variables that the levers want in a process which would otherwise be started with `environ`."""
    wanted: dict[str, str] = {}
    for spec in stack:
        wanted |= from_spec(spec).environment({**environ, **wanted})
    return wanted


def by_name(name: str) -> type[Lever]:
    """The lever of that name.

    Raises:
        UserError: there is none.
    """
    kind = next((kind for kind in _kinds() if kind.name == name), None)
    if kind is not None:
        return kind
    names = [kind.name for kind in __getattr__("ALL")]
    raise UserError(f"There is no lever {name!r}{nearest(name, names) or '.'} Known: {', '.join(names)}.")


def from_spec(spec: LeverSpec) -> Lever:
    """`{"name": "threads", "count": 1}` -> the lever with its settings.

    Raises:
        UserError: the name or a setting is unknown.
    """
    kind = by_name(str(spec.get("name")))
    settings = {key: value for key, value in spec.items() if key != "name"}
    known = {field.name for field in fields(kind)}
    unknown = sorted(set(settings) - known)
    if unknown:
        raise UserError(f"The lever {kind.name} has no setting {unknown[0]!r}. Known: {', '.join(sorted(known))}.")
    try:
        # Checked strictly: settings come out of saved files as well, and end up in the user's source.
        return msgspec.convert(settings, kind)
    except msgspec.ValidationError as error:
        raise UserError(f"A setting of the lever {kind.name} cannot be used: {error}.") from None

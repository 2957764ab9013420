"""CHILD: functions of the script's own modules run the code of a changed source, as long as a patch is on.

A lever whose change is a change of source can so be switched between two steps: what a function does is its `__code__`.
"""

import ast
import hashlib
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

from hotlap.source import Script, parsed

Change = Callable[[Script], Script | None]
"""A file as it is -> as it is to be, every function at its old line; None where there is nothing to change."""


@dataclass(frozen=True, slots=True)
class _Changed:
    """One function of a file."""

    name: str
    """"Attention.forward", "main.<locals>.get_batch"."""
    old: CodeType
    new: CodeType


def changed_functions(change: Change) -> list[tuple[FunctionType, CodeType]]:
    """Functions that are there now and have their old code, with the new one."""
    found = []
    for module, path in _own_modules():
        for entry in _changed_in(path, change):
            function = _resolve(module, entry.name)
            if function is not None and function.__code__ == entry.old:
                found.append((function, entry.new))
    return found


def still_to_come(change: Change) -> bool:
    """True if a module that is there has not come to a function that is to be changed."""
    return any(
        _resolve(module, entry.name) is None for module, path in _own_modules() for entry in _changed_in(path, change)
    )


def _own_modules() -> Iterator[tuple[Any, str]]:
    """Modules of the script's own: neither Python's, nor installed, nor ours."""
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if isinstance(path, str) and path.endswith((".py", ".pyw")) and not _is_foreign(path):
            yield module, path


@cache
def _is_foreign(path: str) -> bool:
    full = str(Path(path).resolve())
    return "site-packages" in full or "dist-packages" in full or full.startswith(_foreign_roots())


@cache
def _foreign_roots() -> tuple[str, ...]:
    """Asked once: a script with a framework has thousands of modules, and each answer takes Python some 0.2 ms."""
    paths = sysconfig.get_paths()
    roots = [Path(paths[name]) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    return tuple(f"{root.resolve()}/" for root in (*roots, Path(__file__).parents[1]))


@lru_cache(maxsize=256)
def _changed_in(path: str, change: Change) -> tuple[_Changed, ...]:
    """Asked at each switch; the file does not change while the process runs."""
    try:
        data = Path(path).read_bytes()
        text = data.decode()
    except (OSError, UnicodeDecodeError):
        return ()
    # Parsed afresh: a change is made in the tree itself.
    script = parsed.__wrapped__(path, hashlib.sha256(data).hexdigest(), text)
    if script is None:
        return ()
    before = _codes(compile(text, path, "exec", dont_inherit=True))
    after = change(script)
    if after is None:
        return ()
    codes = _codes(compile(ast.fix_missing_locations(after.tree), path, "exec", dont_inherit=True))
    return tuple(
        _Changed(name, before[place], code)
        for place, code in codes.items()
        if (name := place[0]) and place in before and not _same(before[place], code)
        if before[place].co_freevars == code.co_freevars
    )


def _codes(code: CodeType) -> dict[tuple[str, int], CodeType]:
    """(Qualified name, first line) -> the code of each function that has a name."""
    found = {}
    for constant in code.co_consts:
        if isinstance(constant, CodeType) and "<" not in constant.co_name:
            found[constant.co_qualname, constant.co_firstlineno] = constant
            found |= _codes(constant)
    return found


def _same(one: CodeType, other: CodeType) -> bool:
    return one.co_code == other.co_code and one.co_names == other.co_names


def _resolve(module: Any, name: str) -> FunctionType | None:
    """`Attention.forward` of a module, if it is the plain function that stands in the source.

    `main.<locals>.get_batch` is found as long as `main` runs in this thread.
    """
    outer, _, inner = name.rpartition(".<locals>.")
    found: Any = _locals_of(module, outer) if outer else vars(module)
    for part in inner.split("."):
        found = (found if isinstance(found, Mapping) else getattr(found, "__dict__", {})).get(part)
        if found is None:
            return None
    return found if isinstance(found, FunctionType) else None


def _locals_of(module: Any, function: str) -> Mapping[str, Any]:
    """Of the innermost call of a module's function that is going on in this thread; nothing where there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_qualname == function and frame.f_globals is vars(module):
            return frame.f_locals
        frame = frame.f_back
    return {}

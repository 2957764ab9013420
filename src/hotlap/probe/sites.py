"""Where in the user's source a call was made: frames -> CallSite."""

import hashlib
import os
import site
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from itertools import islice, takewhile
from pathlib import Path
from types import CodeType, FrameType

from hotlap.record import CallSite, Scalar

# Compared with each module that is loaded, thousands of them: sysconfig takes up to a millisecond each time.
_STDLIB = sysconfig.get_path("stdlib")

_OURS = str(Path(__file__).resolve().parents[1])

# Also those of another environment, whose packages this one reaches through PYTHONPATH or a .pth file.
_PACKAGES = frozenset({"site-packages", "dist-packages"})
_NO_LIBRARIES = ("torch", "hotlap")


@cache
def _foreign_roots() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    roots = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    roots |= {*site.getsitepackages(), site.getusersitepackages(), _OURS}
    # One that was built from source, or came along by a .pth file, lies anywhere.
    roots |= set(getattr(sys.modules.get("torch"), "__path__", ()))
    return tuple(str(Path(root).resolve()) + "/" for root in roots)


@cache
def is_users(filename: str) -> bool:
    """True for a source file on disk that belongs neither to Python, nor to an installed package, nor to us."""
    if filename.startswith("<"):
        return False
    if is_distributions(filename):
        return False
    if os.path.isabs(filename) and not os.path.islink(filename):
        path = os.path.join(_real(os.path.dirname(filename)), os.path.basename(filename))
    else:
        path = os.path.realpath(filename)
    foreign = path.startswith(_foreign_roots()) or not _PACKAGES.isdisjoint(path.split(os.sep))
    return not foreign and os.path.isfile(path)


@cache
def _real(folder: str) -> str:
    """Behind all links. A process with torch has 2,000 modules in 200 folders: once each, 160 ms come to 20."""
    return os.path.realpath(folder)


def is_distributions(filename: str) -> bool:
    """It stands in Python's own folder, wherever a link leads: Debian keeps its `sitecustomize` under /etc."""
    return os.path.dirname(filename) == _STDLIB


@cache
def file_sha256(path: str) -> str:
    """Of the bytes on disk, as they were when first asked for."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def outwards(frame: FrameType | None) -> Iterator[FrameType]:
    """It, what called it, and so on."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def users_frame(start: FrameType | None) -> FrameType | None:
    """The innermost frame, from `start` outwards, that runs the user's own source."""
    return next((frame for frame in outwards(start) if is_users(frame.f_code.co_filename)), None)


def library_below(frame: FrameType, line: FrameType | None) -> str:
    """The package that `line` has called on its way to `frame`, "accelerate"; "" where it is torch, or none."""
    found = ""
    for inner in takewhile(lambda inner: inner is not line, outwards(frame)):
        if _is_packages(inner.f_code.co_filename):
            name = str(inner.f_globals.get("__name__", "")).partition(".")[0]
            found = found if name in _NO_LIBRARIES else name
    return found


@cache
def _is_packages(filename: str) -> bool:
    return not _PACKAGES.isdisjoint(filename.split(os.sep))


def called_through(made: object = None) -> str:
    """Name of the module that the user's own line has called, where we were reached through one; else "". A constructor
    that somebody has wrapped (Lightning wraps that of DataLoader) is that of what the line has `made`."""
    line = users_frame(sys._getframe(1))
    between = takewhile(lambda frame: frame is not line, outwards(sys._getframe(1)))
    *_, called = None, *(frame for frame in between if not frame.f_code.co_filename.startswith(_OURS))
    if line is None or called is None:
        return ""
    first = called.f_locals.get(next(iter(called.f_code.co_varnames), ""))
    return "" if made is not None and first is made else str(called.f_globals.get("__name__", ""))


def call_site(calls: str, *, detail: Mapping[str, Scalar] | None = None) -> CallSite | None:
    """The call in the user's source through which we were reached; None when there is none."""
    frame = users_frame(sys._getframe(1))
    if frame is None:
        return None
    line, end_line, col, end_col = position(frame.f_code, frame.f_lasti)
    if line is None or end_line is None or col is None or end_col is None:
        return None
    path = str(Path(frame.f_code.co_filename).resolve())
    return CallSite(
        calls=calls, path=path, sha256=file_sha256(path), line=line, end_line=end_line, col=col, end_col=end_col,
        detail=dict(detail or {}),
    )  # fmt: skip


def position(code: CodeType, instruction: int) -> tuple[int | None, ...]:
    """(4,) first and last line, first and last column of what an instruction is of, a call expression (PEP 657)."""
    return next(islice(code.co_positions(), instruction // 2, None), (None,) * 4)


def script() -> str | None:
    """The file that is run; None once it has come to its end, when Python takes `__main__.__file__` away."""
    return getattr(sys.modules.get("__main__"), "__file__", None)


def users_sources(main: str | None) -> dict[str, str]:
    """Path -> sha256 of all loaded source files that are the user's, the main script first."""
    files = [script() or main, *(getattr(module, "__file__", None) for module in list(sys.modules.values()))]
    found: dict[str, str] = {}
    for name in files:
        if name and name.endswith((".py", ".pyw")) and is_users(name):
            path = str(Path(name).resolve())
            with suppress(OSError):  # it was there when it was loaded
                found.setdefault(path, file_sha256(path))
    return found

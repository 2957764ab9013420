"""Where traces lie: files and folders of them; plain or gzip, read in pieces and never believed."""

import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from hotlap.errors import UserError

_PIECE = 1 << 22
# A trace packs to a tenth to a thirtieth. What grows by more than this, and past the size, was made to fill a disk.
_MOST_GROWTH = 400
_UNSUSPECTED = 1 << 28
_GZIP = b"\x1f\x8b"
_ENDINGS = (".json", ".json.gz")


def pieces(path: Path) -> Iterator[bytes]:
    """Bytes of a trace, unpacked, in pieces of some megabytes.

    Raises:
        UserError: it cannot be read, is damaged, or grows like no trace does.
    """
    try:
        with path.open("rb") as stream:
            yield from _unpacked(stream, path.name)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{path.name} cannot be read: {reason}. Is the file complete?") from None


def _unpacked(stream: io.BufferedReader, title: str) -> Iterator[bytes]:
    """Pieces of what may be gzip, by its first bytes."""
    source = gzip.GzipFile(fileobj=stream) if stream.peek(len(_GZIP)).startswith(_GZIP) else stream
    grown = 0
    while piece := source.read(_PIECE):
        grown += len(piece)
        if grown > _UNSUSPECTED and grown > _MOST_GROWTH * stream.tell():
            raise UserError(f"{title} unpacks to more than {_MOST_GROWTH} times its size, as no trace does.")
        yield piece


def find(names: Sequence[str]) -> list[Path]:
    """What the user names -> traces, in the order of their names.

    Raises:
        UserError: there is no such file, or no trace in a folder.
    """
    return [one for name in names for one in _of(Path(name))]


def _of(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise UserError(f"{path}: there is no such file. Give a trace that torch.profiler wrote.")
    # Or of a folder for each rank.
    found = _in_folder(path) or [file for folder in sorted(path.iterdir()) for file in _in_folder(folder)]
    if not found:
        raise UserError(f"{path} holds no trace: no file in it ends in {' or '.join(_ENDINGS)}.")
    return found


def _in_folder(path: Path) -> list[Path]:
    listed = sorted(path.iterdir()) if path.is_dir() else []
    return [one for one in listed if one.name.endswith(_ENDINGS) and one.is_file()]

"""Where traces lie: files, folders and tar archives of them; plain or gzip, read in pieces and never believed."""

import gzip
import io
import shutil
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

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
    with _reading(path), path.open("rb") as stream:
        yield from _unpacked(stream, path.name)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{path.name} cannot be read: {reason}. Is the file complete?") from None


def _unpacked(stream: io.BufferedReader, title: str) -> Iterator[bytes]:
    """Pieces of what may be gzip, by its first bytes."""
    source = gzip.GzipFile(fileobj=stream) if stream.peek(len(_GZIP)).startswith(_GZIP) else stream
    grown = 0
    while piece := source.read(_PIECE):
        grown += len(piece)
        _check_growth(title, grown, stream.tell())
        yield piece


def _check_growth(title: str, grown: int, packed: int) -> None:
    if grown > max(_UNSUSPECTED, _MOST_GROWTH * packed):
        raise UserError(f"{title} unpacks to more than {_MOST_GROWTH} times its size, as no trace does.")


@contextmanager
def found(names: Sequence[str]) -> Iterator[list[Path]]:
    """What the user names -> traces, in the order of their names; those of archives are unpacked for as long.

    Raises:
        UserError: there is no such file, or no trace in a folder or archive.
    """
    with TemporaryDirectory() as room:
        yield [one for number, name in enumerate(names) for one in _of(Path(name), Path(room, str(number)))]


def _of(path: Path, room: Path) -> list[Path]:
    if _is_archive(path):
        return _in_archive(path, room) or _none_in(path)
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise UserError(f"{path}: there is no such file. Give a trace that torch.profiler wrote.")
    # Or of a folder for each rank.
    return _in_folder(path) or [one for each in sorted(path.iterdir()) for one in _in_folder(each)] or _none_in(path)


def _in_folder(path: Path) -> list[Path]:
    listed = sorted(path.iterdir()) if path.is_dir() else []
    return [one for one in listed if one.name.endswith(_ENDINGS) and one.is_file()]


def _is_archive(path: Path) -> bool:
    with suppress(OSError, EOFError, zlib.error):  # told when it is read
        return path.is_file() and tarfile.is_tarfile(path)
    return False


def _in_archive(path: Path, room: Path) -> list[Path]:
    """Traces of an archive, side by side in `room`."""
    with _reading(path), tarfile.open(path) as archive:
        members = [one for one in archive if one.isfile() and one.name.endswith(_ENDINGS)]
        _check_growth(path.name, sum(one.size for one in members), path.stat().st_size)
        room.mkdir()
        for member in members:
            held = archive.extractfile(member)
            assert held is not None, "it is a file"
            with held, (room / member.name.replace("/", "-")).open("wb") as out:
                shutil.copyfileobj(held, out)
    return _in_folder(room)


def _none_in(path: Path) -> list[Path]:
    raise UserError(f"{path} holds no trace: no file in it ends in {' or '.join(_ENDINGS)}.")

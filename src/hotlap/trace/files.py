"""Where traces lie: files, folders of them, tar archives; plain or gzip, read in pieces and never believed."""

import gzip
import io
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hotlap.errors import UserError

_PIECE = 1 << 22
# A trace packs to a tenth to a thirtieth. What grows by more than this, and past the size, was made to fill a disk.
_MOST_GROWTH = 400
_UNSUSPECTED = 1 << 28
_GZIP = b"\x1f\x8b"
_ENDINGS = (".json", ".json.gz")


@dataclass(frozen=True, slots=True)
class TraceFile:
    """One trace: a file, or a member of a tar archive."""

    path: Path
    member: str | None = None

    @property
    def title(self) -> str:
        """For people."""
        return self.path.name if self.member is None else f"{self.path.name}:{self.member}"

    def pieces(self) -> Iterator[bytes]:
        """Its bytes, unpacked, in pieces of some megabytes.

        Raises:
            UserError: it cannot be read, is damaged, or grows like no trace does.
        """
        with _reading(self.title), self._opened() as stream:
            yield from _unpacked(stream, self.title)

    @contextmanager
    def _opened(self) -> Iterator[io.BufferedReader]:
        if self.member is None:
            with self.path.open("rb") as stream:
                yield stream
            return
        with tarfile.open(self.path) as archive:
            member = archive.extractfile(self.member)
            if not isinstance(member, io.BufferedReader):
                raise UserError(f"{self.title} is no file.")
            with member:
                yield member


@contextmanager
def _reading(title: str) -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{title} cannot be read: {reason}. Is the file complete?") from None


def find(names: list[str]) -> list[TraceFile]:
    """What the user names -> traces, in the order of their names.

    Raises:
        UserError: there is no such file, or no trace in a folder or archive.
    """
    return [one for name in names for one in _of(Path(name))]


def _of(path: Path) -> list[TraceFile]:
    if path.is_dir():
        # Or of a folder for each rank.
        found = _in_folder(path) or [file for folder in sorted(path.iterdir()) for file in _in_folder(folder)]
        return found or _none_in(path)
    if not path.is_file():
        raise UserError(f"{path}: there is no such file. Give a trace that torch.profiler wrote.")
    if _is_archive(path):
        with _reading(path.name), tarfile.open(path) as archive:
            members = sorted(one.name for one in archive if one.isfile() and one.name.endswith(_ENDINGS))
        return [TraceFile(path, name) for name in members] or _none_in(path)
    return [TraceFile(path)]


def _in_folder(path: Path) -> list[TraceFile]:
    if not path.is_dir():
        return []
    return [TraceFile(one) for one in sorted(path.iterdir()) if one.name.endswith(_ENDINGS) and one.is_file()]


def _none_in(path: Path) -> list[TraceFile]:
    raise UserError(f"{path} holds no trace: no file in it ends in {' or '.join(_ENDINGS)}.")


def _is_archive(path: Path) -> bool:
    try:
        return tarfile.is_tarfile(path)
    except (OSError, EOFError, zlib.error):
        return False  # told when it is read


def _unpacked(stream: io.BufferedReader, title: str) -> Iterator[bytes]:
    """Pieces of what may be gzip, by its first bytes."""
    source = gzip.GzipFile(fileobj=stream) if stream.peek(len(_GZIP)).startswith(_GZIP) else stream
    grown = 0
    while piece := source.read(_PIECE):
        grown += len(piece)
        if grown > _UNSUSPECTED and grown > _MOST_GROWTH * stream.tell():
            raise UserError(f"{title} unpacks to more than {_MOST_GROWTH} times its size, as no trace does.")
        yield piece

"""One source file: its bytes as text with exact positions, and new text as bytes again."""

import difflib
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from tokenize import detect_encoding

from hotlap.errors import UserError

# What ends a line for Python's tokenizer: not form feeds or the separators of Unicode.
NEWLINE = re.compile(r"\r\n|\r|\n")

_NO_NEWLINE = "\\ No newline at end of file\n"


class CannotEdit(UserError):  # noqa: N818 - reads as the sentence "cannot edit"
    """A change that cannot be written at its place without a risk of wrong code."""


class Refusal(Exception):  # noqa: N818 - says what it is; it never leaves this package
    """Why an edit cannot be made; `naming` turns it into a `CannotEdit` that says where."""


@contextmanager
def naming(path: str, line: int | None) -> Iterator[None]:
    """A `Refusal` inside becomes a `CannotEdit` that names the file and line."""
    try:
        yield
    except Refusal as refusal:
        place = path if line is None else f"{path}:{line}"
        raise CannotEdit(f"{shown(place)} cannot be edited: {refusal}.") from None


def shown(text: str) -> str:
    """`text` for a message: control characters (a path in a study is untrusted) become question marks."""
    return "".join(character if character.isprintable() else "?" for character in text)


@dataclass(frozen=True)
class SourceFile:
    """A file of Python source, decoded as Python would decode it; its newlines are left as they are."""

    path: str
    text: str
    """Without the byte order mark."""
    encoding: str
    """Python's name; "utf-8-sig" if there is a byte order mark."""
    sha256: str

    @cached_property
    def newline(self) -> str:
        """The line ending that most lines have."""
        found = NEWLINE.findall(self.text)
        return max(("\n", "\r\n", "\r"), key=found.count)

    def diff(self, new: str, *, root: Path) -> str:
        """How new text of this file differs, with its path from `root`; empty if it does not."""
        mark = "\ufeff" if self.encoding == "utf-8-sig" else ""
        return unified(mark + self.text, mark + new, label=label(self.path, root=root))

    def encode(self, text: str) -> bytes:
        """New text of this file as bytes."""
        return text.encode(self.encoding)


def digest(data: bytes) -> str:
    """SHA-256 as the record holds it."""
    return sha256(data).hexdigest()


def read_bytes(path: Path) -> bytes:
    """The bytes of a file of the user.

    Raises:
        UserError: it is missing or cannot be read.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        message = f"{shown(str(path))} is not there any more. Put it back, or run `hotlap tune` again."
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        reason = error.strerror if isinstance(error, OSError) else "not a path"
        message = f"{shown(str(path))} cannot be read ({reason}). Make it readable, or run `hotlap tune` again."
    raise UserError(message)


def decode(data: bytes, path: str) -> SourceFile:
    """Bytes of a source file -> its text.

    Raises:
        UserError: Python would not decode it, or encoding does not give the same bytes again.
    """
    try:
        encoding = detect_encoding(io.BytesIO(data).readline)[0]
    except SyntaxError as error:
        raise UserError(f"{shown(path)} is not Python source: {error}.") from None
    try:
        source = SourceFile(path=path, text=data.decode(encoding), encoding=encoding, sha256=digest(data))
        same = source.encode(source.text) == data
    except UnicodeError as error:
        raise UserError(f"{shown(path)} is not valid {encoding}: {error}.") from None
    if not same:
        raise UserError(f"{shown(path)} cannot be rewritten in {encoding} without other changes. Save it as UTF-8.")
    return source


def read(path: str, *, sha256: str) -> SourceFile:
    """A source file as it was when it was recorded.

    Raises:
        UserError: it is missing, cannot be read or decoded, or has changed since.
    """
    data = read_bytes(Path(path))
    if digest(data) != sha256:
        raise UserError(f"{shown(path)} changed since it was measured. Run `hotlap tune` again.")
    return decode(data, path)


def label(path: str, *, root: Path) -> str:
    """How a diff names `path`: relative to `root` where it lies below it, else whole."""
    for base, whole in ((root, Path(path)), (root.resolve(), Path(path).resolve())):
        if whole.is_relative_to(base):
            return whole.relative_to(base).as_posix()
    return Path(path).as_posix().lstrip("/")


def unified(old: str, new: str, *, label: str) -> str:
    """The diff of one file; empty if nothing changed. A byte order mark is part of the text."""
    lines = difflib.unified_diff(_lines(old), _lines(new), _name("a", label), _name("b", label))
    return "".join(line if line.endswith("\n") else f"{line}\n{_NO_NEWLINE}" for line in lines)


def _lines(text: str) -> list[str]:
    """As diffs count them: ended by a line feed and by nothing else."""
    return [*io.StringIO(text, newline="\n")]


def _name(side: str, label: str) -> str:
    """`a/train.py`; a tab behind a name with spaces ends it, and odd characters are quoted as git does."""
    name = f"{side}/{label}"
    if re.search(r'["\\\x00-\x1f\x7f]', name):
        return '"' + re.sub(r'["\\\x00-\x1f\x7f]', lambda match: f"\\{ord(match[0]):03o}", name) + '"'
    return f"{name}\t" if " " in name else name

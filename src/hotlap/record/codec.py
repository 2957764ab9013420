"""Record <-> JSON. A saved file is untrusted input: parsed strictly, refused with one clear sentence."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from hotlap.errors import RecordError
from hotlap.record.plan import SCHEMA

_T = TypeVar("_T")

# A file that somebody named may be anything, a script too: nobody is told to delete it.
_ANOTHER = "Give a file that hotlap wrote."


def encode(value: Any) -> bytes:
    """A record type -> compact JSON in UTF-8. File names that are not UTF-8 come out with escapes."""
    try:
        return msgspec.json.encode(value, enc_hook=_own_number)
    except UnicodeEncodeError:
        return msgspec.json.encode(escaped(msgspec.to_builtins(value, enc_hook=_own_number)))


def _own_number(value: Any) -> Any:
    """Settings of the script's may be numbers of NumPy's or torch's."""
    if not callable(getattr(value, "item", None)):
        raise TypeError(f"a record holds no {type(value).__name__}")
    return value.item()


def escaped(value: Any) -> Any:
    """Bytes that the system could not decode (lone surrogates) as text that any reader takes."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {escaped(key): escaped(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [escaped(part) for part in value]
    return value


def decode(data: bytes, kind: type[_T], *, name: str = "the record", remedy: str | None = None) -> _T:
    """JSON -> `kind`.

    Arguments:
        name: what errors call it.
        remedy: what to do where it is damaged; None where `data` need not come from hotlap.

    Raises:
        RecordError: `data` is not valid JSON for `kind`, or of another version.
    """
    damaged = f"{name} is damaged" if remedy else f"{name} is damaged, or was not written by hotlap"
    remedy = remedy or _ANOTHER
    try:
        raw = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RecordError(f"{damaged}: it is not JSON ({error}). {remedy}") from None
    version = raw.get("schema", SCHEMA) if isinstance(raw, dict) else None
    if not isinstance(version, int) or version < 1:
        raise RecordError(f"{name} is not a hotlap record. {_ANOTHER}")
    if version != SCHEMA:
        age = "a newer" if version > SCHEMA else "an older"
        raise RecordError(
            f"{name} was written by {age} hotlap (record version {version}; this one reads {SCHEMA}). "
            "Read it with that one, or measure again with this one."
        )
    try:
        return msgspec.convert(raw, kind, str_keys=True)
    except msgspec.ValidationError as error:
        raise RecordError(f"{damaged}: {error}. {remedy}") from None


def save(value: Any, path: Path) -> None:
    """Write `value` to `path` so that a reader sees the old file or the new one, never half of one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = encode(value)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(data)
        os.replace(part, path)
    except OSError:
        # Half a file on a disk that is full helps nobody.
        with suppress(OSError):
            part.unlink()
        raise


def load(path: Path, kind: type[_T], *, remedy: str | None = None) -> _T:
    """Read what `save` wrote. `remedy`: as in `decode`.

    Raises:
        RecordError: the file cannot be read, is damaged, or of another version.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror}.") from None
    return decode(data, kind, name=str(path), remedy=remedy)

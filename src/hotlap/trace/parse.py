"""Bytes of a Chrome trace -> its events, some thousand at a time: no more of a file is in memory than one piece."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from hotlap.errors import UserError

# Bytes of one event, stacks and shapes included; what is larger is no event.
_LARGEST_EVENT = 1 << 26
# Braces of nested objects that may stand behind the last event that is whole.
_MOST_TRIES = 400
_OPENS = re.compile(rb'"traceEvents"\s*:\s*\[')
_CLOSES = re.compile(rb'\]\s*(?=\}\s*$|,\s*")')
_BETWEEN = re.compile(rb"\}\s*,\s*$")
# What some versions write where JSON has no word, and in texts (paths of Windows, names that were cut).
_NO_NUMBER = re.compile(rb"(:\s*)-?(?:nan|inf|NaN|Infinity)\b")
_BACKSLASH = re.compile(rb'(\\(?:["\\/bfnrt]|u(?![dD][89a-fA-F])[0-9a-fA-F]{4}))|\\')
_NO_CONTROLS = bytes.maketrans(bytes(range(32)), b" " * 32)

# Of msgspec's errors.
_AT = re.compile(r"\(byte (\d+)\)")
# Where an operator has no such argument: this very object.
NOT_TOLD = msgspec.Raw(b"")


# Of what names and tells apart: anything but a list or an object, so that it can be looked up.
Scalar = str | int | float | bool | None


# gc=False: neither can be part of a cycle, and to look for one cost a sixth of the time for a trace of small events.
class Args(msgspec.Struct, gc=False):
    """What an event tells besides its times; anything may stand there."""

    correlation: object = None
    device: Scalar = None
    stream: Scalar = None
    bytes: object = None
    collective: object = msgspec.field(name="Collective name", default=None)
    ranks: object = msgspec.field(name="Process Group Ranks", default=None)
    """Of a collective: all that take part, as a text."""
    types: msgspec.Raw = msgspec.field(name="Input type", default=NOT_TOLD)
    """Of operators whose shapes were recorded: as it stands in the file, for it is mostly met again."""


class Event(msgspec.Struct, gc=False):
    """One event as it stands in the file; times in microseconds."""

    ph: Scalar = None
    cat: Scalar = None
    name: str | None = None
    pid: Scalar = None
    tid: Scalar = None
    ts: float | None = None
    dur: float | None = None
    args: Args | None = None


_EVENTS = msgspec.json.Decoder(list[Event])
_FIELDS = msgspec.json.Decoder(dict[str, Any])


def events(pieces: Iterable[bytes], title: str, header: dict[str, Any]) -> Iterator[list[Event]]:
    """Events in the order of the file; `header` is given what else the file holds, once all were drawn.

    Raises:
        UserError: it is no trace, ends too early, or holds what is no JSON.
    """
    buffer, opened = b"", False
    for piece in pieces:
        buffer += piece
        if not opened:
            found = _opening(buffer)
            if found is None:
                _check_size(buffer, title)
                continue
            header.update(_object(found[0]) or {})
            buffer, opened = buffer[found[1] :], True
        whole, buffer = _whole(buffer, title)
        if whole:
            yield whole
        _check_size(buffer, title)
    if not opened:
        raise UserError(f"{title} is no trace: it holds no list of events (traceEvents), as torch.profiler writes it.")
    last, rest = _last(buffer, title)
    header.update(_object(rest) or {})
    yield last


def _opening(buffer: bytes) -> tuple[bytes, int] | None:
    """What stands before the list of events, and where that begins; None where it is not there yet."""
    for found in _OPENS.finditer(buffer):
        before = buffer[: found.start()]
        # The words may stand in a text; then a quote is open before them.
        if before.rstrip().endswith((b"{", b",")):
            return before.rstrip().rstrip(b",") + b"}", found.end()
    return None


def _whole(buffer: bytes, title: str) -> tuple[list[Event], bytes]:
    """The events that are whole, and the bytes behind them; all bytes where none is."""
    end = len(buffer)
    for _ in range(_MOST_TRIES):
        end = buffer.rfind(b"{", 0, end)
        if end <= 0:
            break
        before = _BETWEEN.search(buffer, max(0, end - 256), end)
        if before is not None and (found := _decoded(buffer[: before.start() + 1], title, only_cut=True)) is not None:
            return found, buffer[end:]
    return [], buffer


def _last(buffer: bytes, title: str) -> tuple[list[Event], bytes]:
    """The last events, and what follows their list as an object."""
    for end in list(_CLOSES.finditer(buffer))[: -_MOST_TRIES - 1 : -1]:
        rest = b"{" + buffer[end.end() :].lstrip().removeprefix(b",")
        if _object(rest) is not None and (last := _decoded(buffer[: end.start()], title)) is not None:
            return last, rest
    raise UserError(f"{title} ends in the middle of an event: the file is not complete. Record or copy it again.")


def _decoded(listed: bytes, title: str, *, only_cut: bool = False) -> list[Event] | None:
    """Events without the brackets around them; None where the bytes are cut in the middle of one.

    Raises:
        UserError: one is no event as torch.profiler writes them; with `only_cut`, where what is no JSON stands before
            the end, for then no other end will do.
    """
    reason = ""
    for read_as in (bytes, _repaired):
        text = read_as(listed)
        try:
            return _EVENTS.decode(b"[" + text + b"]")
        except UnicodeDecodeError:
            continue
        except RecursionError:
            raise UserError(f"{title} is no trace: lists stand within lists without end in it.") from None
        except msgspec.ValidationError as error:
            raise UserError(f"{title} holds an event that torch.profiler does not write: {error}.") from None
        except msgspec.DecodeError as error:
            reason = str(error)
        at = _AT.search(reason)
        if at is None or int(at[1]) > len(text):
            return None
    if only_cut:
        raise UserError(f"{title} is damaged: {reason.partition(' (')[0]} among its events. Record or copy it again.")
    return None


def _repaired(text: bytes) -> bytes:
    """As JSON, where some versions write what is none."""
    text = _BACKSLASH.sub(lambda found: found[1] or rb"\\", _NO_NUMBER.sub(rb"\1null", text))
    return text.translate(_NO_CONTROLS).decode(errors="replace").encode()


def _object(text: bytes) -> dict[str, Any] | None:
    """What stands beside the events; None where that is no JSON. Some versions write paths with backslashes, and
    numbers that are none."""
    for read_as in (bytes, _repaired):
        try:
            return _FIELDS.decode(read_as(text))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
    return None


def _check_size(buffer: bytes, title: str) -> None:
    if len(buffer) > _LARGEST_EVENT:
        raise UserError(f"{title} is no trace: an event of more than {_LARGEST_EVENT >> 20} MB stands in it.")

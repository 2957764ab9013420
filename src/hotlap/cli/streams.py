"""Standard input, output and error, whatever a shell has made of them: closed, full, without a reader, or ASCII."""

import contextlib
import os
import select
import sys
from io import TextIOWrapper
from typing import TextIO


def prepare() -> None:
    """At the start: none of the three is closed, and whatever is printed can be written."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None and not _is_open(number):
            # Else the next file of ours would get its number, and the training would print into that.
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8"))
    for stream in (sys.stdout, sys.stderr):
        tolerate(stream)


def tolerate(stream: TextIO) -> None:
    """What `stream` has no letters for comes out as escapes: names in a study may have any, and bytes that are none."""
    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")


def settle() -> None:
    """At the end: what cannot be written any more is dropped here, or Python would complain about it on its way out."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with contextlib.suppress(OSError):  # not a file of the system's
                _drop(stream)


def hung_up() -> None:
    """What goes to a terminal that was closed is dropped: each line would be an error."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):  # not a file of the system's
            ends = select.poll()
            ends.register(stream, 0)
            if ends.poll(0):
                _drop(stream)


def _drop(stream: TextIO) -> None:
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, stream.fileno())
    os.close(devnull)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True

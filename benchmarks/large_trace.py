"""A real trace, repeated to a given size: `python large_trace.py TRACE OUT MEGABYTES`.

Each copy lies behind the one before in time, has launches of its own and numbers its steps on; every other byte is the
real trace's.
"""

import re
import sys
from pathlib import Path

from hotlap.trace import files

_LIST = re.compile(rb'"traceEvents"\s*:\s*\[')
_END = re.compile(rb"\}\s*\]")
_TIME = re.compile(rb'("ts"\s*:\s*)([\d.]+)')
_LAUNCH = re.compile(rb'("correlation"\s*:\s*)(\d+)')
_STEP = re.compile(rb"(ProfilerStep#)(\d+)")


def write(trace: Path, out: Path, size: int) -> None:
    """As many whole copies as make up `size` bytes, at least one."""
    text = b"".join(files.pieces(trace))
    found = _LIST.search(text)
    if found is None:
        raise SystemExit(f"{trace} is no trace")
    # What follows the events are texts and lists of texts.
    events = text[found.end() : list(_END.finditer(text))[-1].start() + 1]
    times = [float(time) for _, time in _TIME.findall(events)]
    gap = [(_TIME, _span(times)), (_LAUNCH, _above(events, _LAUNCH)), (_STEP, _above(events, _STEP))]
    with out.open("wb") as file:
        file.write(text[: found.end()])
        number = 0
        while number == 0 or file.tell() < size:
            moved = events
            for pattern, length in gap:
                moved = pattern.sub(lambda one, by=number * length: one[1] + _later(one[2], by), moved)
            file.write((b",\n" if number else b"") + moved)
            number += 1
        file.write(b"\n]}\n")


def _span(times: list[float]) -> int:
    """Microseconds from one copy to the next; what stands outside (a mark of the end) counts as well."""
    return int(max(times) - min(times)) + 1_000


def _above(events: bytes, pattern: re.Pattern[bytes]) -> int:
    return max((int(number) for _, number in pattern.findall(events)), default=0) + 1


def _later(number: bytes, by: int) -> bytes:
    whole, point, rest = number.partition(b".")
    return str(int(whole) + by).encode() + point + rest


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]), round(float(sys.argv[3]) * 1e6))

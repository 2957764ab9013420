"""Study -> its steps as they went, in the JSON that Perfetto and Chrome show (the "Trace Event Format")."""

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from hotlap.errors import UserError
from hotlap.record import Excerpt, Study
from hotlap.report import story
from hotlap.report.clean import clean_line

_US = 1e6


def perfetto(study: Study) -> str:
    """Microseconds; one process for each side, one track for each lane and one for the steps.

    Raises:
        UserError: nobody has seen how its steps went.
    """
    sides = (("baseline", story.pictured(study)), ("optimized", study.after))
    shown = [(name, run.excerpt) for name, run in sides if run is not None and run.excerpt is not None]
    if not shown:
        raise UserError(
            f"The study of {clean_line(story.script(study))} does not hold when the parts of its steps came: none was "
            "seen whole, or several levers took turns in it. Measure the script with `hotlap measure`, and show that."
        )
    events = [event for number, (name, one) in enumerate(shown) for event in _events(number, name, one)]
    return json.dumps({"displayTimeUnit": "ms", "traceEvents": events})


def _events(process: int, name: str, excerpt: Excerpt) -> Iterator[dict[str, Any]]:
    tracks = {lane: track for track, lane in enumerate(dict.fromkeys(["steps", *(one.lane for one in excerpt.spans)]))}
    yield {"ph": "M", "name": "process_name", "pid": process, "args": {"name": name}}
    for lane, track in tracks.items():
        yield {"ph": "M", "name": "thread_name", "pid": process, "tid": track, "args": {"name": lane}}
    for number, (begin_s, end_s) in enumerate(pairwise((0.0, *excerpt.ends_s)), excerpt.first):
        yield _span(f"step {number}", process, tracks["steps"], begin_s, end_s)
    for one in excerpt.spans:
        yield _span(one.phase.value, process, tracks[one.lane], one.begin_s, one.end_s)


def _span(name: str, process: int, track: int, begin_s: float, end_s: float) -> dict[str, Any]:
    times = {"ts": _US * begin_s, "dur": _US * (end_s - begin_s)}
    return {"ph": "X", "name": name, "cat": "hotlap", "pid": process, "tid": track, **times}

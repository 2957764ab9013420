"""Study -> a trace of its steps for Perfetto (ui.perfetto.dev) or chrome://tracing: lanes loader, copy, host.

The JSON trace format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU. Of a measured
run the record holds how long each phase of a step took, not when it came: they are drawn one after the other in the
usual order. Of a recorded trace it holds some steps as they were.
"""

import json
from collections.abc import Iterator, Mapping
from math import inf, isfinite, nextafter
from typing import Any

from hotlap.record import Excerpt, MemorySample, Phase, Run, Study, as_float
from hotlap.report import outcome, story
from hotlap.report.clean import clean_line, last_lines
from hotlap.report.document import OUTPUT_LINES
from hotlap.report.lanes import DRAWN_ORDER

Event = Mapping[str, Any]

_LOADER, _COPY, _HOST, _STEPS = range(1, 5)
_IN_ORDER = "phases of a step are drawn in their usual order; recorded is how long each took"
_AS_RECORDED = "some steps of a trace, each phase where it was; pauses too short to be seen are closed"
_THREADS = {_STEPS: "steps", _LOADER: "loader", _COPY: "copy", _HOST: "host"}
_LANE_OF = {Phase.INPUT: _LOADER, Phase.TRANSFER: _COPY}
# Beyond a year a time is damaged data; microseconds in a float are exact to here.
_LONGEST_S = 3e7


def render(study: Study) -> str:
    """One JSON object in ASCII; a process of the trace for each side."""
    events: list[Event] = []
    run = story.timed(study)
    for number, (name, side) in enumerate((("baseline", story.pictured(study)), ("optimized", study.after)), 1):
        if side is not None and side.excerpt is not None:
            events += _recorded(number, side, side.excerpt)
        elif side is not None and side.step_s:
            events += _process(number, name, side)
    conclusion = outcome.conclusion(study)
    document = {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {
            "command": clean_line(story.script(study)),
            "conclusion": clean_line(f"{conclusion.title}. {conclusion.sentence}"),
            "findings": "; ".join(clean_line(f"{one.code}: {one.evidence}") for one in study.findings),
            "verdict": _verdict(study),
            "output": last_lines(run.output, OUTPUT_LINES) if run is not None else "",
            "how to read": _AS_RECORDED if run is not None and run.excerpt is not None else _IN_ORDER,
        },
    }
    return json.dumps(document, indent=None, separators=(",", ":")) + "\n"


def _verdict(study: Study) -> str:
    """What was decided, for a study that decided something."""
    if study.result is None:
        return "none"
    speedup = story.interval(study.result.speedup)
    levers = clean_line(story.lever_titles(study.result.levers))
    return f"{study.result.verdict.value}: {study.result.speedup.mid:.2f}x ({speedup}) with {levers}"


def _names(number: int, name: str, threads: Mapping[int, str]) -> Iterator[Event]:
    yield {"ph": "M", "pid": number, "tid": 0, "name": "process_name", "args": {"name": name}}
    for order, (thread, title) in enumerate(threads.items()):
        yield {"ph": "M", "pid": number, "tid": thread, "name": "thread_name", "args": {"name": title}}
        yield {"ph": "M", "pid": number, "tid": thread, "name": "thread_sort_index", "args": {"sort_index": order}}


def _recorded(number: int, run: Run, excerpt: Excerpt) -> Iterator[Event]:
    """Steps of a trace, which knows when each phase came."""
    lanes = {lane: thread for thread, lane in enumerate(dict.fromkeys(span.lane for span in excerpt.spans), _STEPS + 1)}
    yield from _names(
        number, "recorded", {_STEPS: "steps"} | {thread: clean_line(lane) for lane, thread in lanes.items()}
    )
    end_s = 0.0
    for index in range(max(0, excerpt.first), min(excerpt.first + excerpt.num_steps, len(run.step_s))):
        begin_s, end_s = end_s, end_s + run.step_s[index]
        yield _slice(number, _STEPS, f"step {index}", begin_s, end_s, {"step": index})
    free_s = dict.fromkeys(lanes, 0.0)
    for span in sorted(excerpt.spans, key=lambda one: one.begin_s):
        # Closed pauses may hold another phase: slices of one lane must not cross.
        begin_s = max(span.begin_s, free_s[span.lane])
        if begin_s < span.end_s < _LONGEST_S:
            free_s[span.lane] = span.end_s
            yield _slice(number, lanes[span.lane], span.phase.value, begin_s, span.end_s, {})


def _process(number: int, name: str, run: Run) -> Iterator[Event]:
    yield from _names(number, name, _THREADS)
    starts = set(run.epoch_starts)
    memory = {sample.step: sample for sample in run.memory}
    now_s = 0.0
    for i, step_s in enumerate(run.step_s):
        if not 0 <= step_s < _LONGEST_S or now_s > _LONGEST_S:
            return
        index = run.step_index[i] if i < len(run.step_index) else i
        args: dict[str, Any] = {"step": index}
        if i in starts:
            args["epoch"] = "a loader was started anew"
        yield _slice(number, _STEPS, f"step {index}", now_s, now_s + step_s, args)
        for phase, begin_s, end_s in _in_turn(run.phase_s, i, now_s):
            # Rounding must not carry a phase into the next step, whose slices are on the same lanes.
            lane = _LANE_OF.get(phase, _HOST)
            yield _slice(number, lane, phase.value, min(begin_s, now_s + step_s), min(end_s, now_s + step_s), {})
        yield from _counters(number, run, i, now_s, memory.get(index))
        now_s += step_s


def _in_turn(
    parts_of: Mapping[Phase, tuple[float, ...] | None], i: int, now_s: float
) -> Iterator[tuple[Phase, float, float]]:
    """(phase, begin, end) of step `i`, from `now_s` on."""
    for phase in DRAWN_ORDER:
        parts = parts_of.get(phase)
        if parts is not None and i < len(parts) and 0 < parts[i] < _LONGEST_S:
            yield phase, now_s, now_s + parts[i]
            now_s += parts[i]


def _counters(number: int, run: Run, i: int, now_s: float, memory: MemorySample | None) -> Iterator[Event]:
    loss = as_float(run.loss[i]) if i < len(run.loss) else None
    if loss is not None and isfinite(loss):
        yield {"ph": "C", "pid": number, "name": "loss", "ts": _us(_ns(now_s)), "args": {"loss": loss}}
    if memory is not None:
        counts = {"resident": memory.rss_bytes, "device": memory.device_bytes}
        known = {name: count for name, count in counts.items() if count is not None}
        yield {"ph": "C", "pid": number, "name": "memory", "ts": _us(_ns(now_s)), "args": known}


def _slice(process: int, thread: int, name: str, begin_s: float, end_s: float, args: Mapping[str, Any]) -> Event:
    begin_ns, end_ns = _ns(begin_s), _ns(end_s)
    return {
        "ph": "X",
        "pid": process,
        "tid": thread,
        "name": name,
        "ts": _us(begin_ns),
        "dur": _us(end_ns - begin_ns),
        "args": args,
    }


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


def _us(nanoseconds: int) -> float:
    """Microseconds that are these nanoseconds again for any reader.

    Slices of one lane must not overlap: Perfetto drops one that does, by a nanosecond too. Its older versions multiply
    by 1000 and cut off, newer ones round (`CoerceToTs` of its JSON importer); so the float must not lie below.
    """
    value = nanoseconds / 1000
    return value if int(value * 1000.0) == nanoseconds else nextafter(value, inf)

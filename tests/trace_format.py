"""What a viewer relies on in a trace of the Trace Event Format: each rule as a sentence that is said when it is broken.

The format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU. What Perfetto makes of it:
its JSON importer (src/trace_processor/importers/json) and its slice tracker, which drops a slice that is neither within
another one of its track nor beside it.
"""

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Event = Mapping[str, Any]

# Phases (kinds of events) of the format that this checks, with the fields that each has to have beside "ph" and "pid".
_FIELDS = {
    "X": ("name", "tid", "ts", "dur"),
    "B": ("name", "tid", "ts"),
    "E": ("tid", "ts"),
    "i": ("name", "tid", "ts"),
    "C": ("name", "ts", "args"),
    "M": ("name", "args"),
    "s": ("name", "tid", "ts", "id"),
    "t": ("name", "tid", "ts", "id"),
    "f": ("name", "tid", "ts", "id"),
}
_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "name": lambda value: isinstance(value, str) and bool(value),
    "cat": lambda value: isinstance(value, str),
    "pid": lambda value: _is_whole(value) and value >= 0,
    "tid": lambda value: _is_whole(value) and value >= 0,
    "ts": lambda value: _is_number(value) and value >= 0,
    "dur": lambda value: _is_number(value) and value >= 0,
    "id": lambda value: isinstance(value, str) or _is_whole(value),
    "args": lambda value: isinstance(value, dict),
}
_METADATA: Mapping[str, Callable[[Any], bool]] = {
    "process_name": lambda args: isinstance(args.get("name"), str),
    "thread_name": lambda args: isinstance(args.get("name"), str),
    "process_labels": lambda args: isinstance(args.get("labels"), str),
    "process_sort_index": lambda args: _is_whole(args.get("sort_index")),
    "thread_sort_index": lambda args: _is_whole(args.get("sort_index")),
}


def faults(text: str) -> list[str]:
    """Of a file; empty for a sound one."""
    try:
        document = json.loads(text, parse_constant=_no_number)
    except ValueError as error:
        return [f"it is no JSON: {error}"]
    if not isinstance(document, dict) or not isinstance(document.get("traceEvents"), list):
        return ["there is no list of traceEvents"]
    found = [] if document.get("displayTimeUnit", "ms") in ("ms", "ns") else ["times are shown in ms or ns only"]
    events = document["traceEvents"]
    broken = [fault for event in events for fault in _faults_of(event)]
    if broken:
        return found + broken
    return [*found, *_unnamed(events), *_unbalanced(events), *_overlapping(events), *_loose(events)]


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _faults_of(event: Any) -> Iterator[str]:
    if not isinstance(event, dict) or event.get("ph") not in _FIELDS:
        yield f"no kind of event: {event}"
        return
    for field in (*_FIELDS[event["ph"]], "pid"):
        if field not in event:
            yield f"no {field}: {event}"
    for field, is_sound in _TYPES.items():
        if field in event and not is_sound(event[field]):
            yield f"{field} is no {field}: {event}"
    if event["ph"] == "C" and not (event.get("args") and all(map(_is_number, event["args"].values()))):
        yield f"a counter counts numbers: {event}"
    if event["ph"] == "M" and not _METADATA.get(event.get("name", ""), lambda args: False)(event.get("args", {})):
        yield f"no metadata: {event}"


def _unnamed(events: Sequence[Event]) -> Iterator[str]:
    named = {
        (e["name"], e["pid"], e.get("tid") if e["name"] == "thread_name" else None) for e in events if e["ph"] == "M"
    }
    for pid in sorted({e["pid"] for e in events}):
        if ("process_name", pid, None) not in named:
            yield f"process {pid} has no name"
    for pid, tid in sorted({(e["pid"], e["tid"]) for e in events if e["ph"] in "XBE"}):
        if ("thread_name", pid, tid) not in named:
            yield f"thread {tid} of process {pid} has no name"


def _unbalanced(events: Sequence[Event]) -> Iterator[str]:
    open_: dict[tuple[int, int], list[Event]] = defaultdict(list)
    for event in sorted((e for e in events if e["ph"] in "BE"), key=lambda e: float(e["ts"])):
        stack = open_[event["pid"], event["tid"]]
        if event["ph"] == "B":
            stack.append(event)
        elif not stack:
            yield f"it ends what has not begun: {event}"
        elif stack.pop()["name"] != event.get("name", "") and "name" in event:
            yield f"it ends another one: {event}"
    yield from (f"it never ends: {event}" for stack in open_.values() for event in stack)


def _overlapping(events: Sequence[Event]) -> Iterator[str]:
    """By both ways in which viewers make nanoseconds of a float: rounding, and cutting off."""
    for to_ns in (lambda us: round(us * 1000), lambda us: int(us * 1000.0)):
        tracks: dict[tuple[int, int], list[tuple[int, int, Event]]] = defaultdict(list)
        for event in events:
            if event["ph"] == "X":
                begin = to_ns(event["ts"])
                tracks[event["pid"], event["tid"]].append((begin, begin + to_ns(event["dur"]), event))
        for slices in tracks.values():
            yield from _crossing(slices)


def _crossing(slices: list[tuple[int, int, Event]]) -> Iterator[str]:
    open_: list[int] = []
    for begin, end, event in sorted(slices, key=lambda one: (one[0], -one[1])):
        while open_ and open_[-1] <= begin:
            open_.pop()
        if open_ and end > open_[-1]:
            yield f"it begins within another one of its track and ends after it: {event}"
        open_.append(end)


def _loose(events: Sequence[Event]) -> Iterator[str]:
    """Arrows: each goes from one place to another that is no earlier, and each of its ends lies within a slice."""
    slices = [(e["pid"], e["tid"], e["ts"], e["ts"] + e["dur"]) for e in events if e["ph"] == "X"]
    flows: dict[Any, list[Event]] = defaultdict(list)
    for event in events:
        if event["ph"] in "stf":
            flows[event.get("cat"), event["name"], event["id"]].append(event)
            inside = any(
                (pid, tid) == (event["pid"], event["tid"]) and begin <= event["ts"] <= end
                for pid, tid, begin, end in slices
            )
            if not inside:
                yield f"an arrow from or to no slice: {event}"
    for key, ends in flows.items():
        ends.sort(key=lambda event: float(event["ts"]))
        if [event["ph"] for event in ends] != ["s", *["t"] * (len(ends) - 2), "f"]:
            yield f"an arrow without one begin and one end: {key}"

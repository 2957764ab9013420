"""The trace: what viewers of the format rely on."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotlap.record import Phase
from hotlap.report import trace
from tests import sample_measured, samples, trace_format
from tests.sample_measured import run_on_gpu, study_measured
from tests.sample_runs import run_with


def events(text: str) -> list[dict[str, Any]]:
    return list(json.loads(text)["traceEvents"])


STUDIES = {
    "measured": sample_measured.study_measured,
    "long": sample_measured.study_long,
    "full": samples.study_full,
    "not finite": samples.study_not_finite,
    "hostile": samples.study_hostile,
    "empty": samples.study_empty,
}


@pytest.mark.parametrize("study", STUDIES)
def test_a_trace_keeps_the_rules_of_its_format(study: str) -> None:
    assert trace_format.faults(trace.render(STUDIES[study]())) == []


SECONDS = st.floats(0, 10, allow_subnormal=False)


@given(steps=st.lists(st.tuples(SECONDS, SECONDS), min_size=1, max_size=30))
def test_no_lengths_of_steps_make_slices_that_cross(steps: list[tuple[float, float]]) -> None:
    """Phases that sum to a step but for rounding."""
    forward, other = zip(*steps, strict=True)
    run = replace(
        run_with(step_s=0.1),
        step_s=tuple(a + b for a, b in steps),
        phase_s={Phase.FORWARD: forward, Phase.OTHER: other},
    )
    assert trace_format.faults(trace.render(replace(study_measured(), baseline=(run,)))) == []


NAMES = (
    {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "a"}},
    {"ph": "M", "pid": 1, "tid": 1, "name": "thread_name", "args": {"name": "b"}},
)


def a_slice(begin: float, length: float, **given: Any) -> dict[str, Any]:
    return {"ph": "X", "pid": 1, "tid": 1, "name": "c", "ts": begin, "dur": length, **given}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ([{"ph": "?", "pid": 1}], "no kind of event"),
        ([a_slice(0, 1, ts="0")], "ts is no ts"),
        ([a_slice(0, -1)], "dur is no dur"),
        ([a_slice(0, 1, pid="1")], "pid is no pid"),
        ([a_slice(0, 1, name="")], "name is no name"),
        ([{"ph": "X", "pid": 1, "tid": 1, "name": "c", "ts": 0}], "no dur"),
        ([a_slice(0, 1, tid=2)], "thread 2 of process 1 has no name"),
        ([a_slice(0, 1, pid=2)], "process 2 has no name"),
        ([a_slice(0, 10), a_slice(5, 10)], "begins within another one of its track and ends after it"),
        ([a_slice(0, 1.001), a_slice(1, 1)], "begins within another one"),
        ([{"ph": "C", "pid": 1, "name": "loss", "ts": 0, "args": {"loss": "high"}}], "a counter counts numbers"),
        ([{"ph": "M", "pid": 1, "name": "process_name", "args": {}}], "no metadata"),
        ([{"ph": "B", "pid": 1, "tid": 1, "name": "c", "ts": 0}], "it never ends"),
        ([{"ph": "E", "pid": 1, "tid": 1, "ts": 0}], "it ends what has not begun"),
        (
            [a_slice(0, 9), {"ph": "s", "pid": 1, "tid": 1, "name": "f", "id": 1, "ts": 1}],
            "without one begin and one end",
        ),
        ([{"ph": "s", "pid": 1, "tid": 1, "name": "f", "id": 1, "ts": 1}], "from or to no slice"),
    ],
)
def test_a_broken_rule_is_noticed(wrong: list[Any], says: str) -> None:
    sound = [*NAMES, a_slice(0, 1), a_slice(1, 2), a_slice(1, 1)]
    assert trace_format.faults(json.dumps({"traceEvents": sound})) == []
    assert any(says in fault for fault in trace_format.faults(json.dumps({"traceEvents": [*NAMES, *wrong]})))


def test_what_is_no_number_in_json_is_noticed() -> None:
    assert trace_format.faults('{"traceEvents": [NaN]}') == ["it is no JSON: NaN is no JSON"]
    assert trace_format.faults("[]") == ["there is no list of traceEvents"]


def test_the_time_of_a_phase_is_the_recorded_one() -> None:
    run = run_on_gpu()
    copies = [event for event in events(trace.render(study_measured())) if event["ph"] == "X" and event["tid"] == 2]
    total_us = sum(event["dur"] for event in copies)
    assert total_us == pytest.approx(1e6 * sum(run.phase_s[Phase.TRANSFER] or ()), rel=1e-4)
    assert {event["name"] for event in copies} == {"transfer"}


def test_both_sides_of_a_tuned_study_are_there_and_losses_that_are_numbers() -> None:
    found = events(trace.render(samples.study_not_finite()))
    assert {event["pid"] for event in found} == {1, 2}
    losses = [event["args"]["loss"] for event in found if event["ph"] == "C" and event["name"] == "loss"]
    assert losses
    assert all(abs(loss) < 10 for loss in losses)


def test_memory_is_a_counter() -> None:
    found = [event for event in events(trace.render(study_measured())) if event["name"] == "memory"]
    assert len(found) == 8
    assert set(found[0]["args"]) == {"resident", "device"}

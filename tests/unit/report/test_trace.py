"""The trace: what viewers of the format rely on."""

import json
from collections import defaultdict
from itertools import pairwise
from typing import Any

import pytest

from hotlap.record import Phase
from hotlap.report import trace
from tests import samples
from tests.sample_measured import run_on_gpu, study_measured


def events(text: str) -> list[dict[str, Any]]:
    return list(json.loads(text)["traceEvents"])


def test_every_event_says_what_the_format_asks_for() -> None:
    for event in events(trace.render(study_measured())):
        assert event["ph"] in {"X", "M", "C"}
        assert isinstance(event["pid"], int)
        assert isinstance(event["args"], dict)
        if event["ph"] == "X":
            assert event["dur"] >= 0
            assert event["ts"] >= 0


def test_slices_of_one_lane_do_not_overlap() -> None:
    lanes = defaultdict(list)
    for event in events(trace.render(study_measured())):
        if event["ph"] == "X":
            lanes[event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    assert len(lanes) == 5
    for slices in lanes.values():
        for (_, end), (begin, _) in pairwise(slices):
            assert begin >= end - 0.002


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

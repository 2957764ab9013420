"""What was seen besides the phases, in rows; nothing is said of what was not looked at."""

import dataclasses

from hotlap.record import Interval, OperatorWindow, SightingKind, Sweep, ThreadTime
from hotlap.report.details import details, place, sweep
from tests.rule_runs import sighting
from tests.sample_measured import run_on_gpu, study_long
from tests.samples import SCRIPT, run_with


def test_a_run_without_profilers_has_nothing_to_add() -> None:
    assert details(run_with()) == ()


def test_every_part_that_was_looked_at_is_told() -> None:
    titles = [detail.title for detail in details(run_on_gpu())]
    assert titles == [
        "Inside the input",
        "Hottest lines of your source",
        "Seen at lines of your source",
        "The device",
        "Operators of a step",
        "Processor",
        "Memory",
        "Between steps",
        "Processes that train together",
    ]


def test_parts_that_could_not_be_measured_are_left_out_and_the_costliest_come_first() -> None:
    (found,) = (detail for detail in details(run_on_gpu()) if detail.title == "Inside the input")
    assert [row.text for row in found.rows] == [
        "making the items in the data set",
        "collating items into batches",
    ]
    assert found.rows[0].head.startswith("1.20 ms")


def test_two_calls_in_one_line_are_one_row() -> None:
    one = sighting(SightingKind.EVALUATION, cost_s=0.002, evaluation=True)
    twice = dataclasses.replace(run_with(), sightings=(one, dataclasses.replace(one, per_step=0.5, cost_s=0.001)))
    (found,) = (detail for detail in details(twice) if detail.title == "Seen at lines of your source")
    assert [row.head for row in found.rows] == ["1.5 x a step, 3.00 ms"]


def test_a_line_with_next_to_nothing_of_a_step_is_no_row() -> None:
    costly = sighting(SightingKind.SYNC, cost_s=0.002)
    cheap = dataclasses.replace(costly, line=7, cost_s=1e-6)
    untimed = dataclasses.replace(costly, line=8, cost_s=None)
    seen = dataclasses.replace(run_with(), sightings=(cheap, costly, untimed))
    (found,) = (detail for detail in details(seen) if detail.title == "Seen at lines of your source")
    assert len(found.rows) == 2 and not any(":7" in row.text for row in found.rows)


def test_a_line_is_named_from_the_folder_of_the_script() -> None:
    assert place(SCRIPT, 51, run_with()) == "digits.py:51"
    assert place("/elsewhere/x.py", 3, run_with()) == "/elsewhere/x.py:3"


def test_a_window_that_is_not_complete_says_so() -> None:
    run = run_on_gpu()
    assert run.operators is not None
    broken = dataclasses.replace(run.operators, complete=False, why_not="kernels were lost")
    (found,) = (
        one for one in details(dataclasses.replace(run, operators=broken)) if one.title == "Operators of a step"
    )
    assert "not complete: kernels were lost" in found.lead


def test_what_starting_operators_costs_is_a_least_because_those_that_others_call_are_not_counted() -> None:
    window = OperatorWindow(num_steps=5, wall_s=0.01, operators=(), num_calls=100, dispatch_s=4e-6)
    (section,) = details(dataclasses.replace(run_with(), operators=window))
    assert "To start them costs at least 400 us a step here, 4.00 us each" in section.lead


def test_a_long_run_is_told_by_all_its_steps() -> None:
    whole = details(study_long().baseline[0])[0]
    assert whole.title == "The whole run"
    assert whole.lead.startswith("327,680 steps in 18 min: 3.30 ms in the mean, half of them within ")
    assert whole.lead.endswith(", the longest 90.0 ms.")


def test_each_number_of_threads_is_told_with_its_interval() -> None:
    one = ThreadTime(threads=1, step_s=Interval(low=0.0102, mid=0.0107, high=0.0115))
    (found,) = sweep(Sweep(times=(one,), why="1 thread is best."))
    assert found.lead == "1 thread is best."
    assert [(row.head, row.text) for row in found.rows] == [
        ("1 thread", "10.7 ms a step (95% interval 10.2 to 11.5 ms)")
    ]

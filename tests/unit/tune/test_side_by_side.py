"""Processes that train side by side: whole runs with fewer threads, compared with the baseline."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from hotlap.record import CpuUse, Neighbour, Plan, Run
from hotlap.search import StudyLog
from hotlap.tune.side_by_side import why_not, with_fewer_threads
from tests.rule_runs import healthy
from tests.sample_runs import run_with
from tests.unit.tune.world import MACHINE, Silent, new_study, options_for

HOGWILD = replace(
    healthy(step_s=0.9),
    num_threads=2,
    what_ifs=(),
    cpu=CpuUse(
        usable_cores=2.0,
        main=0.9,
        others=0.0,
        neighbours=(Neighbour(pid=7, name="main.py", threads=2, ours=True),),
    ),
)


class Runs:
    """Answers with steps of 0.9 s, and of 0.1 s under the lever where it reaches the processes."""

    def __init__(self, *, reaches: bool = True) -> None:
        self.plans: list[Plan] = []
        self.reaches = reaches

    def __call__(self, plans: Sequence[Plan], *, limit_s: float) -> list[Run]:
        self.plans += plans
        (plan,) = plans
        if plan.arms[0] and self.reaches:
            return [replace(run_with(step_s=0.1), num_threads=int(plan.arms[0][0]["count"] or 0))]
        return [run_with(step_s=0.9)]


def log(runs: Runs) -> StudyLog:
    options = options_for("/main.py")
    return StudyLog(new_study(options), options, MACHINE, runs, Silent(), now=lambda: 0.0)


def test_fewer_threads_are_timed_in_all_processes_beside_the_baseline() -> None:
    runs = Runs()
    (seen,) = with_fewer_threads(log(runs), HOGWILD).what_ifs
    assert sorted(len(plan.arms[0]) for plan in runs.plans) == [0, 1]
    assert all(plan.turn is None for plan in runs.plans), "they would wait for one another's turns"
    assert (seen.now, seen.other) == (2, 1)
    assert (seen.now_s, seen.other_s) == pytest.approx((0.9, 0.1))
    assert (seen.agree, seen.whole_runs) == (1.0, True)


def test_nothing_is_said_of_a_lever_that_did_not_reach_the_processes() -> None:
    assert with_fewer_threads(log(Runs(reaches=False)), HOGWILD) is HOGWILD


def test_one_process_is_not_run_again() -> None:
    runs = Runs()
    for run in (healthy(), replace(HOGWILD, num_threads=1)):
        assert with_fewer_threads(log(runs), run) is run
    assert not runs.plans


def test_tune_says_why_it_tries_no_levers_and_what_helps() -> None:
    assert why_not(healthy()) is None
    sentence = why_not(with_fewer_threads(log(Runs()), HOGWILD)) or ""
    assert sentence.startswith("2 processes train side by side here")
    assert (
        "Try OMP_NUM_THREADS=1 in front of the command: one run with it took 100 ms a step, one without 900 ms."
        in sentence
    )

"""Processes that train side by side: whole runs with fewer threads, compared with the baseline."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from hotlap.record import CpuUse, Neighbour, Plan, Run, State, Study, Verdict
from hotlap.report.outcome import conclusion, start_commands
from hotlap.search import Options, StudyLog
from hotlap.tune.side_by_side import PAIRS, conclude, fewer_threads, why_not, with_fewer_threads
from tests.rule_runs import healthy
from tests.sample_runs import run_with
from tests.unit.tune.world import MACHINE

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

    def __init__(self, *, reaches: bool = True, fewer_s: float = 0.1) -> None:
        self.plans: list[Plan] = []
        self.reaches, self.fewer_s = reaches, fewer_s

    def __call__(self, plans: Sequence[Plan], *, limit_s: float) -> list[Run]:
        self.plans += plans
        (plan,) = plans
        if plan.arms[0] and self.reaches:
            return [replace(run_with(step_s=self.fewer_s), num_threads=int(plan.arms[0][0]["count"] or 0))]
        return [run_with(step_s=0.9)]


class Silent:
    def doing(self, text: str) -> None: ...

    def changed(self, study: Study, part: str) -> None: ...


def log(runs: Runs) -> StudyLog:
    study = Study(command=("main.py",), cwd="/", created="", key="")
    options = Options(command=("python", "main.py"), cwd="/", title="main.py")
    return StudyLog(study, options, MACHINE, runs, Silent(), now=lambda: 0.0)


def test_fewer_threads_are_timed_in_all_processes_between_two_baseline_runs() -> None:
    runs = Runs()
    (seen,) = with_fewer_threads(HOGWILD, fewer_threads(log(runs), HOGWILD)).what_ifs
    assert sorted(len(plan.arms[0]) for plan in runs.plans) == [0, 1]
    assert all(plan.turn is None for plan in runs.plans), "they would wait for one another's turns"
    assert (seen.now, seen.other) == (2, 1)
    assert (seen.now_s, seen.other_s) == pytest.approx((0.9, 0.1))
    assert (seen.agree, seen.whole_runs) == (1.0, True)


def test_pairs_of_whole_runs_are_a_trial_and_the_result_is_a_command_line() -> None:
    runs = Runs()
    known = log(runs)
    effect = fewer_threads(known, HOGWILD, most=PAIRS)
    assert len(runs.plans) == 2 * PAIRS
    assert sum(len(plan.arms[0]) for plan in runs.plans[::2]) not in {0, PAIRS}, "none is always first"
    conclude(known, effect)
    (trial,) = known.study.trials
    assert trial.levers == ({"name": "threads", "count": 1},)
    assert trial.log_ratios == pytest.approx([math.log(9)] * PAIRS)
    assert (trial.verdict, trial.accepted) == (Verdict.UNDECIDED, False)
    assert known.study.result is not None
    assert known.study.result.environment == {"OMP_NUM_THREADS": "1"}
    study = replace(known.study, state=State.COMPLETE, baseline=(HOGWILD,))
    assert conclusion(study).title == "Gate inconclusive"
    assert start_commands(study)[0][0] == "OMP_NUM_THREADS=1 python main.py"


def test_two_pairs_or_none_that_gains_are_no_result() -> None:
    known = log(Runs())
    conclude(known, fewer_threads(known, HOGWILD, most=2))
    assert len(known.study.trials) == 1
    assert known.study.trials[0].speedup is None
    assert known.study.result is None
    equal = log(Runs(fewer_s=0.9))
    conclude(equal, fewer_threads(equal, HOGWILD, most=PAIRS))
    assert len(equal.study.trials) == 1 and equal.study.result is None


def test_no_pair_is_begun_that_does_not_fit_into_the_budget() -> None:
    clock = [0.0]

    class Slow(Runs):
        def __call__(self, plans: Sequence[Plan], *, limit_s: float) -> list[Run]:
            clock[0] += 60.0
            return super().__call__(plans, limit_s=limit_s)

    study = Study(command=("main.py",), cwd="/", created="", key="")
    options = Options(command=("python", "main.py"), cwd="/", title="main.py", budget_s=300.0)
    known = StudyLog(study, options, MACHINE, Slow(), Silent(), now=lambda: clock[0])
    found = fewer_threads(known, HOGWILD, most=PAIRS)
    assert found is not None and len(found.runs) == 2


def test_nothing_is_said_of_a_lever_that_did_not_reach_the_processes() -> None:
    assert fewer_threads(log(Runs(reaches=False)), HOGWILD) is None
    assert with_fewer_threads(HOGWILD, None) is HOGWILD


def test_one_process_is_not_run_again() -> None:
    runs = Runs()
    for run in (healthy(), replace(HOGWILD, num_threads=1)):
        assert fewer_threads(log(runs), run) is None
    assert not runs.plans


def test_tune_says_why_it_tries_no_levers_and_what_helps() -> None:
    assert why_not(healthy()) is None
    sentence = why_not(with_fewer_threads(HOGWILD, fewer_threads(log(Runs()), HOGWILD))) or ""
    assert sentence.startswith("2 processes train side by side here")
    assert "OMP_NUM_THREADS=1 in front of the command, 100 ms a step in place of 900 ms." in sentence

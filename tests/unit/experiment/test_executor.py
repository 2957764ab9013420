"""Designs become processes of the right size, in turns where memory holds them; each arm gets a ratio or a reason."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from hotlap.experiment import Arm, Comparison, Design, EditedScript, Effect, Executor, Rule, Sizes, compare
from hotlap.experiment.failure import Failed
from hotlap.record import Failure, LeverSpec, Plan, Run, Status
from tests.unit.tune.world import AnyScript, World

SIZES = Sizes(step_s=0.003, setup_s=4.0, block=11, steps=110, warmup=20, evidence_steps=0, together=4, cores=2.0)
COMMON = Plan(command=("python", "/train.py"), cwd="/", out="", seed=0)
FUSED: LeverSpec = {"name": "fused-optimizer"}
THREADS: LeverSpec = {"name": "threads", "count": 1}


def world(**settings: object) -> World:
    return World(path="/train.py", sha256="0" * 64, **settings)  # type: ignore[arg-type]


def executor_in(here: World, sizes: Sizes = SIZES, script: EditedScript | None = None) -> Executor:
    return Executor(here, COMMON, sizes, script=script or AnyScript(), now=here.now)


def test_a_lever_that_cannot_be_written_is_not_run_and_others_are() -> None:
    for switched in (True, False):
        here = world()
        fused, threads = Effect(Arm(levers=(FUSED,))), Effect(Arm(levers=(THREADS,)))
        executor = executor_in(here, script=AnyScript("fused-optimizer"))
        compare(executor, Comparison(effects=[fused, threads], design=Design(switched=switched)))
        assert fused.failure is not None and fused.failure.why == "The call stands in a lambda"
        assert not fused.log_ratios and threads.failure is None and threads.log_ratios
        assert FUSED not in [spec for plan in here.plans for spec in (*plan.always, *sum(plan.arms, ()))]
        made, below = len(here.plans), Effect(Arm(levers=(THREADS,)))
        compare(executor, Comparison(effects=[below], design=Design(stack=(FUSED,), switched=switched)))
        assert below.failure == fused.failure and len(here.plans) == made


def test_where_edits_do_not_reach_the_process_a_lever_fails_and_says_why() -> None:
    class Copied(World):
        def run(self, plan: Plan) -> Run:
            return replace(super().run(plan), unreached=tuple(f"{path} in rank 1" for path in plan.replaced))

    here = Copied(path="/train.py", sha256="0" * 64)
    effect = Effect(Arm(levers=(FUSED,)))
    compare(executor_in(here), Comparison(effects=[effect], design=Design()))
    assert len(here.plans) == 2 and effect.failure is not None
    assert effect.failure.why.startswith("the edit of /train.py in rank 1 was not ")


def test_what_was_accepted_is_in_the_text_of_every_process() -> None:
    here = world()
    executor_in(here).trial_groups(Design(arms=(Arm(), Arm(levers=(THREADS,))), stack=(FUSED,), switched=True))[0]
    executor_in(here).trial_groups(Design(arms=(Arm(), Arm(levers=(THREADS,))), stack=(FUSED,)))[0]
    texts = [plan.replaced["/train.py"] for plan in here.plans]
    assert texts == ["fused-optimizer", "fused-optimizer", "fused-optimizer threads"]


def test_arms_that_are_switched_share_a_process_and_others_have_their_own() -> None:
    here = world(costs={"fused-optimizer": 0.8, "threads": 0.5})
    executor = executor_in(here)
    arms = (Arm(), Arm(levers=(FUSED,)), Arm(levers=(THREADS,)))
    switched = executor.trial_groups(Design(arms=arms, switched=True))[0]
    processes = executor.trial_groups(Design(arms=arms))[0]
    assert (len(switched.runs), len(processes.runs)) == (1, 3)
    for trial_group in (switched, processes):
        assert list(trial_group.outcomes) == pytest.approx([-math.log(0.8), -math.log(0.5)], abs=0.1)
    assert here.plans[0].arms == ((), (FUSED,), (THREADS,))
    assert here.plans[0].steps % (3 * SIZES.block) == 0, "each arm stands at each place equally often"
    assert len({plan.order_seed for plan in here.plans}) == 2, "each trial group has an order of its own"


def test_where_memory_does_not_hold_them_they_run_one_after_the_other_and_none_is_always_first() -> None:
    here = world()
    executor = executor_in(here, replace(SIZES, together=1))
    for _ in range(12):
        assert [run.always for run in executor.trial_groups(Design(arms=(Arm(), Arm(levers=(FUSED,)))))[0].runs] == [
            (),
            (FUSED,),
        ]
    assert not any(plan.turn for plan in here.plans)
    assert {len(plan.always) for plan in here.plans[::2]} == {0, 1}


def test_estimates_follow_the_machine() -> None:
    here = world(start_s=40.0)
    executor = executor_in(here)
    before_s = executor.estimate_s()
    for _ in range(4):
        executor.trial_groups(Design(arms=(Arm(), Arm())))[0]
    assert executor.estimate_s() > 2 * before_s


def test_a_lever_that_was_not_at_work_has_a_reason_and_no_ratio() -> None:
    class Idle(World):
        def run(self, plan: Plan) -> Run:
            return replace(super().run(plan), not_installed=("fused-optimizer: no optimizer.",) if plan.always else ())

    here = Idle(path="/train.py", sha256="0" * 64)
    trial_group = executor_in(here).trial_groups(Design(arms=(Arm(), Arm(levers=(FUSED,)))))[0]
    (failed,) = trial_group.outcomes
    assert isinstance(failed, Failed) and failed.kind is Failure.NOT_INSTALLED
    assert failed.why == "fused-optimizer: no optimizer", "who tells it ends the sentence"
    assert not trial_group.base_failed


def test_a_comparison_ends_when_it_is_clear_and_says_what_was_seen() -> None:
    here = world(costs={"fused-optimizer": 0.5})
    faster, same = Effect(Arm(levers=(FUSED,)), (1e-4, 6)), Effect(Arm(levers=(THREADS,)), (1e-4, 6))
    executor = executor_in(here)
    compare(executor, Comparison(effects=[faster, same], design=Design(switched=True)))
    assert faster.gained and faster.mean == pytest.approx(math.log(2.0), abs=0.05)
    assert not same.gained
    assert faster.speedup is None, "two processes show no interval"
    assert faster.run is not None and len(faster.run.step_s) < len(here.run(here.plans[0]).step_s), (
        "its own steps alone"
    )
    patient = Effect(Arm(levers=(FUSED,)), (1e-4, 6))
    compare(executor, Comparison(effects=[patient], design=Design(switched=True), rule=Rule(patient=True)))
    assert patient.speedup is not None


def test_no_trial_group_begins_when_the_time_is_over() -> None:
    class Never(World):
        def __call__(self, plans: Sequence[Plan], *, limit_s: float) -> list[Run]:
            return [Run(status=Status.CRASHED) for _ in plans]

    here = Never(path="/train.py", sha256="0" * 64)
    effect = Effect(Arm(levers=(FUSED,)))
    executor = executor_in(here)
    compare(executor, Comparison(effects=[effect], design=Design(), time_left=lambda: False))
    assert effect.open and effect.failure is None and here.num_runs == 0


@pytest.mark.parametrize(("num_stopped", "fails"), [(1, False), (2, True)])
def test_a_trial_group_that_was_stopped_early_is_made_once_more(num_stopped: int, fails: bool) -> None:
    class Stopped(World):
        def __call__(self, plans: Sequence[Plan], *, limit_s: float) -> list[Run]:
            runs = super().__call__(plans, limit_s=limit_s)
            early = self.num_runs <= 2 * num_stopped
            return [replace(run, step_s=run.step_s[:3], status=Status.LAPSED) for run in runs] if early else runs

    here = Stopped(path="/train.py", sha256="0" * 64, costs={"fused-optimizer": 0.5})
    effect = Effect(Arm(levers=(FUSED,)))
    compare(executor_in(here), Comparison(effects=[effect], design=Design(), rule=Rule(planned=1)))
    assert (effect.failure is not None) == fails
    assert len(effect.log_ratios) == (not fails)
    if effect.failure is not None:
        assert effect.failure.kind is Failure.TOO_FEW_STEPS

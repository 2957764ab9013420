"""What a search says of trials that were not decided."""

import math
from dataclasses import replace

from hotlap.experiment import Arm, Effect
from hotlap.experiment.failure import Failed
from hotlap.record import CpuUse, Failure, Interval, LeverSpec, Noise, Plan, Trial, Verdict
from hotlap.search import StudyLog
from hotlap.search.candidates import Candidates
from hotlap.search.reasons import is_decided, not_gated, seemed, sighting, why_not_judged
from tests.unit.tune.world import MACHINE, Silent, World, new_study, options_for

CACHED: LeverSpec = {"name": "cached-dataset"}
WORKERS: LeverSpec = {"name": "workers", "num_workers": 2}
PLAN = Plan(command=("train.py",), cwd="/", out="", steps=100, warmup=10)
SAME = Interval(low=0.97, mid=1.0, high=1.03)
NOISE = Noise(scope="process", speedup=SAME, smallest_gain=1.05, log_ratios=(0.01, -0.02))


def log_of(*trials: Trial, noise: tuple[Noise, ...] = (NOISE,)) -> StudyLog:
    """Of a study that has made these trials and has no time left."""
    world = World(path="/home/ada/train.py", sha256="0" * 64)
    options = replace(options_for(world.path), levers=("cached-dataset", "workers"), budget_s=0.001)
    run = world.run(PLAN)
    study = replace(new_study(options), baseline=(run,), trials=trials, noise=noise)
    return StudyLog(study, options, MACHINE, world, Silent(), now=world.now)


def seen(*trials: Trial, noise: tuple[Noise, ...] = (NOISE,), cpu: CpuUse | None = None) -> str | None:
    """What is told of them. `cpu`: of the baseline."""
    log = log_of(*trials, noise=noise)
    best = sighting(log, list(trials))
    return None if best is None else seemed(best, replace(log.study.baseline[0], cpu=cpu), needs_s=290.0)


def trial(*levers: LeverSpec, saw: tuple[float, ...]) -> Trial:
    """Processes in which these levers were so much faster."""
    return Trial(levers=levers, scope="process", log_ratios=tuple(map(math.log, saw)))


def test_a_stack_that_seemed_to_gain_much_is_told_as_one_lever_is() -> None:
    alone = trial(CACHED, saw=(1.37,))
    told = seen(alone, trial(CACHED, WORKERS, saw=(2.02,)))
    assert told is not None and told.startswith("cached-dataset + workers num_workers=2 seemed to make a step 2.02x")


def test_what_seemed_to_gain_is_told_from_all_processes_that_timed_it() -> None:
    told = seen(trial(CACHED, saw=(2.0, 1.7, 3.0)), trial(CACHED, saw=(1.4,)), noise=())
    assert told == (
        "cached-dataset seemed to make a step 1.94x as fast in 4 processes: too few to show it on this machine, and "
        "training was not compared; --budget 5m may show it."
    )


def test_what_a_busy_machine_showed_is_told_as_such() -> None:
    busy, quiet = (CpuUse(usable_cores=2.0, main=main, others=0.0, runnable=2.0) for main in (1.0, 2.0))
    few, more = (trial(CACHED, saw=(22.3,) * num_processes) for num_processes in (2, 3))
    told = seen(few, cpu=busy)
    assert told is not None and "22" not in told
    assert told.startswith("cached-dataset may make a step faster, but what 2 processes saw on a busy machine")
    assert "22.30x as fast in 3 processes while the machine was busy:" in (seen(more, cpu=busy) or "")
    assert "busy" not in (seen(few, cpu=quiet) or "busy")


def test_what_three_processes_saw_is_not_decided_by_counting_their_spread_twice() -> None:
    three = trial(CACHED, saw=(1.30, 1.35, 1.40))
    assert not is_decided(log_of(three, noise=()), three)


def test_what_seemed_to_gain_and_was_decided_since_is_told_no_more() -> None:
    alone = trial(CACHED, saw=(2.5,))
    slower = (0.90, 0.91, 0.92, 0.90)
    assert seen(alone) is not None
    assert seen(alone, trial(CACHED, saw=slower)) is None
    assert seen(alone, trial(CACHED, WORKERS, saw=slower)) is None
    run = World(path="/home/ada/train.py", sha256="0" * 64).run(PLAN)
    assert seen(replace(alone, runs=(run,), verdict=Verdict.HARMED)) is None


def test_a_lever_that_could_not_be_tried_is_named_once() -> None:
    why = Failed(Failure.NOT_INSTALLED, "compile mode=default: no model was compiled")
    effect = Effect(Arm(levers=({"name": "compile", "mode": "default"},)), failure=why)
    assert why_not_judged(effect, None) == "It could not be tried: no model was compiled."


def test_a_gain_that_was_not_judged_is_told_of_a_step_and_of_the_whole_training() -> None:
    gained = replace(trial(CACHED, saw=(6.18,)), kind="screening")
    plain = log_of(gained)
    assert not_gated(Candidates(plain).unjudged(), plain.study.total_steps).startswith(
        "cached-dataset gained 6.18x a step, "
    )
    costly = log_of(replace(gained, one_time_s=3.0, break_even_step=288))
    costly.study = replace(costly.study, total_steps=1000)
    assert not_gated(Candidates(costly).unjudged(), 1000) == (
        "cached-dataset gained 6.18x a step (2.48x for a whole training of 1,000 steps, one-time cost included), "
        "but what was left of the budget was too short to check that training stays the same under it, and to confirm "
        "the patched script."
    )

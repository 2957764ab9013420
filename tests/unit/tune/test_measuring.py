"""A study without trials, in a world without processes."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from hotlap.errors import Interrupted, NoSteps, ScriptFailed
from hotlap.record import (
    NO_OPERATORS,
    CpuUse,
    Operator,
    OperatorWindow,
    Phase,
    Plan,
    Purpose,
    Run,
    Sighting,
    SightingKind,
    State,
    Status,
    Study,
)
from hotlap.tune import StudyLog, measured
from tests.unit.tune.world import MACHINE, PHASES, Silent, World, new_study, options_for

WINDOW = OperatorWindow(
    num_steps=3, wall_s=0.004, operators=(Operator(name="aten::add", per_step=4, self_s=1e-4),), num_calls=100.0,
    dispatch_s=3e-6,
)  # fmt: skip


def measure(
    world: World, *, steps: int = 200, warmup: int = 20, repeat: bool = True, observer: Silent | None = None
) -> Study:
    options = options_for(world.path, has_budget=False)
    study = replace(new_study(options), purpose=Purpose.MEASURE)
    log = StudyLog(study, options, MACHINE, world, observer or Silent(), now=world.now)
    plan = replace(options.plan, steps=steps, warmup=warmup, profilers=("operators",), whole_epoch=True)
    return measured(log, plan, repeat=repeat)


def world(**settings: object) -> World:
    return World(path="/home/ada/train.py", sha256="0" * 64, **settings)  # type: ignore[arg-type]


def ceilings(study: Study) -> dict[str, float]:
    return {ceiling.name: ceiling.speedup.mid for ceiling in study.ceilings}


def test_tells_what_a_step_waits_for_and_tries_nothing() -> None:
    here = world()
    study = measure(here)
    assert study.state is State.COMPLETE
    assert study.findings[0].code == "input-bound"
    assert study.trials == ()
    assert study.result is None
    assert study.patch is None
    assert all(not plan.always and plan.arms == ((),) for plan in here.plans)


def test_only_the_first_run_is_watched() -> None:
    here = world()
    measure(here)
    assert here.plans[0].profilers == ("operators",)
    assert not any(plan.profilers for plan in here.plans[1:])


def test_the_ceiling_of_free_batches_is_measured_and_the_others_are_taken_from_the_phases() -> None:
    study = measure(world())
    found = ceilings(study)
    # The world makes a step without its input 0.4 times as long; the optimizer takes 12% of it, other 4%.
    assert found["input"] == pytest.approx(1 / 0.4, rel=0.05)
    assert found["optimizer"] == pytest.approx(1 / 0.88, rel=0.02)
    assert found["host"] == pytest.approx(1 / 0.96, rel=0.02)
    assert list(found.values()) == sorted(found.values(), reverse=True)
    for ceiling in study.ceilings:
        assert ceiling.speedup.low <= ceiling.speedup.mid <= ceiling.speedup.high


def test_a_bound_that_was_shown_with_the_findings_stays_what_it_was() -> None:
    seen: dict[str, Study] = {}

    class Notes(Silent):
        def changed(self, study: Study, part: str) -> None:
            seen[part] = study

    measure(world(), observer=Notes())
    then = ceilings(seen["findings"])
    assert set(then) == {"optimizer", "host"}, "free batches are not measured yet"
    assert then == {name: speedup for name, speedup in ceilings(seen["end"]).items() if name != "input"}


def test_quick_runs_the_script_once_and_still_bounds_the_input() -> None:
    here = world()
    study = measure(here, repeat=False)
    assert len(here.plans) == 1
    assert ceilings(study)["input"] == pytest.approx(1 / 0.4, rel=0.02)
    assert study.noise == ()


class Threaded(World):
    """All of a step is arithmetic, which takes three times as long on two threads; others use a core, or do not."""

    served = 0.5

    def run(self, plan: Plan) -> Run:
        run = super().run(plan)
        two = [bool(arm) and arm[0]["count"] == 2 for arm in plan.arms]
        step_s = tuple(3 * s if two[arm] else s for s, arm in zip(run.step_s, run.arm, strict=True))
        phase_s = dict.fromkeys(Phase, None) | {Phase.FORWARD: step_s}
        use = CpuUse(usable_cores=2.0, main=2.0 * self.served, others=0.0, runnable=2.0)
        return replace(run, step_s=step_s, phase_s=phase_s, cpu=use)


@pytest.mark.parametrize(("served", "doubted"), [(0.5, True), (1.0, False)])
def test_fewer_threads_that_are_faster_are_told_with_their_range_and_with_doubt_where_others_used_the_cores(
    served: float, doubted: bool
) -> None:
    here = Threaded(path="/home/ada/train.py", sha256="0" * 64)
    here.served = served
    sweep = measure(here).sweep
    assert sweep is not None
    told = re.match(r"With 1 thread instead of 2, a step is (.*)x \((.*)-(.*)x\) as fast\.", sweep.fewer)
    assert told is not None
    mid, low, high = map(float, told.groups())
    assert low <= mid <= high and mid == pytest.approx(3.0, rel=0.1)
    for text in (sweep.fewer, sweep.why):
        assert text.endswith("run it again on a quiet machine to know what is gained there.") == doubted


def test_knows_how_far_one_run_differs_from_the_next() -> None:
    (noise,) = measure(world(process_sd=0.05)).noise
    assert noise.scope == "again"
    assert 2 <= len(noise.log_ratios) <= 3
    spread = math.sqrt(sum(x * x for x in noise.log_ratios) / len(noise.log_ratios))
    assert 0.005 < spread < 0.3


def test_a_slow_start_limits_the_number_of_runs_and_what_is_said_of_them() -> None:
    here = world(start_s=40.0)
    (noise,) = measure(here).noise
    assert len(here.plans) == 1 + 3 * 2
    assert len(noise.log_ratios) == 2
    assert noise.speedup is None and noise.smallest_gain is None
    here = world(start_s=500.0)
    study = measure(here)
    assert len(here.plans) == 1
    assert "too long to start" in study.warnings[0]


@pytest.mark.parametrize(("num_workers", "without_loader"), [(0, 0), (2, 4)])
def test_a_loader_that_cannot_gain_is_not_run_without(
    monkeypatch: pytest.MonkeyPatch, num_workers: int, without_loader: int
) -> None:
    """What its workers cost beside the training no phase shows."""
    monkeypatch.setitem(PHASES, Phase.INPUT, 0.01)
    here = world(loader={"num_workers": num_workers})
    study = measure(here)
    assert sum(plan.free_input for plan in here.plans) == without_loader
    assert len(study.noise) == 1


def test_more_steps_can_be_wanted() -> None:
    here = world()
    study = measure(here, steps=500, warmup=5, repeat=False)
    assert len(study.baseline[0].step_s) == 500
    assert here.plans[0].warmup == 5


class Short(World):
    """Its script makes so few steps that the windows get none, unless fewer are recorded."""

    def run(self, plan: Plan) -> Run:
        made = 60
        num_steps = min(plan.steps, made - plan.warmup)
        run = super().run(replace(plan, steps=num_steps))
        if not plan.profilers:
            return run
        if num_steps + plan.warmup + 8 > made:
            return replace(run, status=Status.ENDED, notes=(f"{NO_OPERATORS}: it was over.", "No GPU."))
        seen = Sighting(kind=SightingKind.SYNC, what="Tensor.item", path="/a.py", line=3, per_step=1.0)
        return replace(run, operators=WINDOW, sightings=(seen,))


def test_a_short_script_runs_again_for_what_needs_steps_of_its_own() -> None:
    here = Short(path="/home/ada/train.py", sha256="0" * 64)
    study = measure(here, repeat=False)
    assert [plan.steps for plan in here.plans] == [200, 15]
    assert [plan.whole_epoch for plan in here.plans] == [True, False], "the end of an epoch was seen, or never comes"
    run = study.baseline[0]
    assert len(run.step_s) == 40
    assert run.operators == WINDOW
    assert run.notes == ("No GPU.",), "what was seen later is not said to be unseen"
    assert len(run.sightings) == 1


def test_a_short_script_that_saw_its_end_coming_runs_once() -> None:
    class Foresees(Short):
        def run(self, plan: Plan) -> Run:
            run = super().run(replace(plan, steps=30))
            return replace(run, status=Status.ENDED)

    here = Foresees(path="/home/ada/train.py", sha256="0" * 64)
    study = measure(here, repeat=False)
    assert len(here.plans) == 1
    assert study.baseline[0].operators == WINDOW


def test_a_second_look_that_fails_leaves_the_first_one_as_it_is() -> None:
    class FailsLater(Short):
        def run(self, plan: Plan) -> Run:
            if self.num_runs:
                return Run(status=Status.CRASHED, error="OSError: gone")
            return super().run(plan)

    study = measure(FailsLater(path="/home/ada/train.py", sha256="0" * 64), repeat=False)
    assert study.state is State.COMPLETE
    assert study.baseline[0].operators is None
    assert "OSError: gone" in study.warnings[0]


class Failing(World):
    """Answers each plan with one run."""

    answer: Run

    def __call__(self, plans: Sequence[Plan], *, limit_s: float) -> list[Run]:
        return [self.answer for _ in plans]


@pytest.mark.parametrize(
    ("run", "error", "says"),
    [
        (Run(status=Status.CRASHED, error="ValueError: no"), ScriptFailed, "before its first training step"),
        (Run(status=Status.CRASHED, first_steps_s=(0.1,) * 3), ScriptFailed, "failed after 3 training steps: "),
        (
            Run(status=Status.CRASHED, first_steps_s=(0.1,) * 20, step_s=(0.1,) * 55, error="it left with exit code 7"),
            ScriptFailed,
            "failed after at least 75 training steps: it left with exit code 7",
        ),
        (Run(status=Status.KILLED, error="it was ended by SIGKILL"), ScriptFailed, "before its first training step"),
        (
            Run(status=Status.KILLED, error="it was ended by SIGKILL after 220 training steps"),
            ScriptFailed,
            "train.py failed: it was ended by SIGKILL after 220 training steps",
        ),
        (Run(status=Status.ENDED), NoSteps, "ended without a training step"),
        (
            Run(status=Status.ENDED, step_s=(0.1,)),
            NoSteps,
            r"only 1 training step, of 100 ms .* Let it train longer\.$",
        ),
        (Run(status=Status.LAPSED, step_s=(28.0,) * 4, setup_s=20.0), NoSteps, "Raise --timeout to 5m, or"),
    ],
)
def test_what_cannot_be_measured_is_refused_with_a_reason(run: Run, error: type[Exception], says: str) -> None:
    here = Failing(path="/home/ada/train.py", sha256="0" * 64)
    here.answer = run
    with pytest.raises(error, match=says):
        measure(here)


@pytest.mark.parametrize("num_runs", [1, 2])
def test_what_was_measured_until_an_interruption_is_kept(num_runs: int) -> None:
    """In the first run, or in the one that looks closer."""
    here = world(length=60)
    stopped = Stopped(here, num_runs)
    seen = Silent()
    with pytest.raises(Interrupted):
        measure(stopped, observer=seen)  # type: ignore[arg-type]
    assert seen.parts == ["baseline", "findings"]
    assert seen.studies[-1].baseline == (stopped.runs[0],)
    assert seen.studies[-1].findings


@dataclass
class Stopped:
    """A world that the user ends in its run of that number."""

    world: World
    at: int
    runs: list[Run] = field(default_factory=list)

    @property
    def path(self) -> str:
        return self.world.path

    def now(self) -> float:
        return self.world.now()

    def __call__(self, plans: Sequence[Plan], *, limit_s: float) -> list[Run]:
        made = self.world(plans, limit_s=limit_s)
        self.runs += made
        if len(self.runs) == self.at:
            raise Interrupted(made)
        return made

"""Larger batches in a world without processes: the curve, the knee, and the time to a loss."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from hotlap.experiment import Sizes
from hotlap.record import BatchPoint, LoaderFacts, OptimizerFacts, Plan, Recipe, Run, Status, Study
from hotlap.search import StudyLog
from hotlap.tune.recipe import Recipes, knee
from tests.unit.tune.world import ADAM, LOADER, MACHINE, AnyScript, Silent, new_study, options_for

BATCH = LOADER.batch_size or 0
LARGE = replace(LOADER, num_items=100_000)


@dataclass
class Batches:
    """A step takes `start_s`, and `sample_s` for each sample; the loss falls with updates, `useful` of them at most
    counting more in a larger batch."""

    start_s: float = 0.004
    sample_s: float = 0.00001
    useful: float = math.inf
    fails_at: int | None = None
    clock: float = 0.0
    plans: list[Plan] = field(default_factory=list)

    def __call__(self, plans: Sequence[Plan], *, limit_s: float) -> list[Run]:
        self.plans += plans
        runs = [self.run(plan) for plan in plans]
        self.clock += 4.0 + sum(sum(run.step_s) for run in runs)
        return runs

    def run(self, plan: Plan) -> Run:
        size = next((int(str(spec["size"])) for spec in plan.arms[0]), BATCH)
        if self.fails_at is not None and size >= self.fails_at:
            return Run(status=Status.CRASHED, error="OutOfMemoryError: CUDA out of memory.")
        rng = random.Random(f"{size}-{plan.reseed}-{len(self.plans)}")
        step_s = self.start_s + self.sample_s * size
        speed = min(size / BATCH, self.useful)
        block = plan.turn.steps if plan.turn else plan.block
        return Run(
            status=Status.COMPLETE,
            first_steps_s=(step_s,) * plan.warmup,
            step_s=tuple(step_s * rng.lognormvariate(0, 0.02) for _ in range(plan.steps)),
            block=tuple(k // block for k in range(plan.steps)),
            arm=(0,) * plan.steps,
            step_index=tuple(range(plan.steps)),
            num_samples=(size,) * plan.steps,
            loss=tuple(2 * math.exp(-k * speed / 1000) + rng.gauss(0, 0.02) for k in range(plan.steps)),
        )


def study_batches(
    world: Batches,
    *,
    loader: LoaderFacts = LARGE,
    optimizer: OptimizerFacts = ADAM,
    budget_s: float = 600.0,
    together: int = 8,
) -> Recipe:
    options = options_for("/home/ada/train.py", budget_s=budget_s)
    first = replace(
        world.run(Plan(command=options.command, cwd="/", out="")),
        loaders=(loader,),
        optimizers=(optimizer,),
        setup_s=4.0,
    )
    study: Study = replace(new_study(options), baseline=(first,))
    log = StudyLog(study, options, MACHINE, world, Silent(), now=lambda: world.clock)
    log.script = AnyScript()
    Recipes(log, replace(Sizes.of(first, MACHINE), together=together)).study()
    assert log.study.recipe is not None
    return log.study.recipe


@pytest.mark.parametrize("together", [1, 8])
def test_the_knee_is_taken_and_not_the_largest(together: int) -> None:
    recipe = study_batches(Batches(), together=together)
    sizes = [point.size for point in recipe.curve]
    assert sizes == [BATCH * 2**k for k in range(len(sizes))]
    assert BATCH < recipe.size < sizes[-1]
    fastest = max(point.samples_per_s for point in recipe.curve)
    chosen = next(point for point in recipe.curve if point.size == recipe.size)
    assert chosen.samples_per_s > 0.8 * fastest


def test_without_known_noise_each_size_is_timed_twice() -> None:
    world = Batches()
    recipe = study_batches(world)
    sizes = [int(str(spec["size"])) for plan in world.plans if plan.warmup for spec in plan.arms[0]]
    assert sizes == [size for point in recipe.curve[1:] for size in (point.size,) * 2]


def test_only_sizes_that_ran_are_returned() -> None:
    recipe = study_batches(Batches(start_s=0.1, fails_at=8 * BATCH))
    assert [point.size for point in recipe.curve] == [BATCH, 2 * BATCH, 4 * BATCH]
    assert recipe.size == 4 * BATCH
    assert recipe.accepted


def test_a_loss_that_is_reached_sooner_is_worth_it() -> None:
    recipe = study_batches(Batches())
    assert recipe.accepted
    assert recipe.speedup is not None and recipe.speedup.low > 1.5
    assert recipe.rates == {"Adam": pytest.approx(math.sqrt(recipe.size / BATCH))}


def test_sgd_takes_the_linear_rule() -> None:
    recipe = study_batches(Batches(), optimizer=replace(ADAM, name="torch.optim.SGD"))
    assert recipe.rates == {"SGD": recipe.size / BATCH}


def test_where_the_knee_takes_longer_to_the_loss_a_smaller_size_may_not() -> None:
    recipe = study_batches(Batches(start_s=0.05, useful=8.0))
    fastest = knee(recipe.curve)
    assert BATCH < recipe.size < fastest
    assert recipe.accepted


def test_more_samples_a_second_that_train_no_better_are_not_worth_it() -> None:
    recipe = study_batches(Batches(useful=1.0))
    assert len(recipe.curve) > 3
    assert recipe.size == BATCH
    assert not recipe.accepted
    assert "did not reach a loss" in recipe.why or "no sooner" in recipe.why


def test_where_samples_cost_all_the_time_no_larger_batch_is_worth_it() -> None:
    recipe = study_batches(Batches(start_s=0.0001, sample_s=0.001))
    assert recipe.size == BATCH
    assert not recipe.accepted
    assert "No larger batch" in recipe.why


def test_a_small_data_set_bounds_the_sizes() -> None:
    recipe = study_batches(Batches(start_s=0.1), loader=replace(LOADER, num_items=BATCH * 32))
    assert recipe.curve[-1].size == 4 * BATCH


def test_every_run_beside_another_takes_turns_with_it() -> None:
    world = Batches()
    study_batches(world)
    assert all(plan.turn is not None for plan in world.plans)
    assert {plan.reseed for plan in world.plans} == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"loader": replace(LOADER, batch_size=None)}, "does not draw its batches"),
        ({"loader": replace(LOADER, trained_on=False)}, "does not draw its batches"),
        ({"optimizer": replace(ADAM, closure=True)}, "closure"),
    ],
)
def test_what_no_rule_covers_is_not_tried(changes: dict[str, object], says: str) -> None:
    world = Batches()
    recipe = study_batches(world, **changes)  # type: ignore[arg-type]
    assert says in recipe.why
    assert world.plans == []
    assert not recipe.accepted


def test_without_time_nothing_is_claimed() -> None:
    recipe = study_batches(Batches(), budget_s=5.0)
    assert recipe.why == "No larger batch was timed; the time for more sizes was over."
    assert not recipe.accepted
    assert recipe.speedup is None


@pytest.mark.parametrize(
    ("speed", "size"),
    [([], 0), ([1.0], 1), ([1.0, 1.02, 1.05], 1), ([1.0, 1.9, 3.5, 3.6], 4), ([1.0, 1.9, 1.0, 1.0], 2)],
)
def test_the_knee_is_the_smallest_size_that_is_nearly_as_fast_as_any(speed: list[float], size: int) -> None:
    curve = [BatchPoint(size=2**k, samples_per_s=100.0 * one) for k, one in enumerate(speed)]
    assert knee(curve) == size

"""Somebody else's edit: what is said of it follows from what it does to times and to losses."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from hotlap.errors import ScriptFailed
from hotlap.levers import Numerics
from hotlap.record import Plan, Run, Status, Verdict
from hotlap.search import StudyLog
from hotlap.tune.checking import Check, Checked, Speed
from tests.unit.tune.world import MACHINE, Silent, World, new_study, options_for

# What a text with this in it does, the world says of the lever.
EDIT, LEVER = "loader = cached(data)", "cached-dataset"


def world(**fields: object) -> World:
    return World(path="/train.py", sha256="0" * 64, **fields)  # type: ignore[arg-type]


def check(
    of: World,
    *,
    weakest: Numerics = Numerics.STATISTICAL,
    budget_s: float = 300.0,
    before: str = f"{EDIT}  # a comment",
    after: str = EDIT,
) -> Checked:
    options = options_for(of.path, budget_s=budget_s)
    log = StudyLog(new_study(options), options, MACHINE, of, Silent(), now=of.now)
    return Check(log, {of.path: after}, before={of.path: before}, weakest=weakest).run()


def test_a_faster_step_with_the_same_losses_passes() -> None:
    found = check(world(costs={LEVER: 0.5}))
    assert (found.verdict, found.speed, found.contract) == (Verdict.UNHARMED, Speed.FASTER, "exact")
    assert found.step is not None
    assert found.step.low < 2.0 < found.step.high


def test_a_slower_step_is_told_though_it_trains_the_same() -> None:
    found = check(world(costs={LEVER: 1.5}))
    assert (found.verdict, found.speed) == (Verdict.UNHARMED, Speed.SLOWER)


def test_an_equal_step_is_not_slower_where_the_noise_lets_it_be_told() -> None:
    assert check(world(process_sd=0.001, block_sd=0.001)).speed in (Speed.NOT_SLOWER, Speed.FASTER)
    assert check(world(process_sd=0.3)).speed is Speed.INCONCLUSIVE


def test_the_whole_training_has_the_starts_of_its_epochs_or_is_not_told() -> None:
    class Starting(World):
        """The second version's step takes half as long, and the start of an epoch ten seconds."""

        def run(self, plan: Plan) -> Run:
            run = super().run(plan)
            if plan.evidence or not plan.whole_epoch:
                return run
            at = len(run.step_s) // 2
            start_s = run.step_s[at] + (10.0 if plan.replaced else 0.0)
            return replace(run, step_s=(*run.step_s[:at], start_s, *run.step_s[at + 1 :]), epoch_starts=(at,))

    def found(num_items: int) -> Checked:
        loader = {"num_items": num_items, "batch_size": 64}
        return check(Starting(path="/train.py", sha256="0" * 64, costs={LEVER: 0.5}, loader=loader))

    near, far = found(64 * 50), found(64 * 1_000_000)
    assert near.step is not None and near.step.low > 1
    assert near.total is not None and near.total.high < 1
    assert far.step is not None
    assert far.total is None


def test_other_losses_fail_every_contract_that_may_be_tried() -> None:
    found = check(world(harms={LEVER: 0.5}))
    assert (found.verdict, found.contract) == (Verdict.HARMED, "statistical")
    strict = check(world(harms={LEVER: 0.5}), weakest=Numerics.EXACT)
    assert (strict.verdict, strict.contract) == (Verdict.HARMED, "exact")


@pytest.mark.parametrize(("weakest", "starts"), [(Numerics.ROUNDING, {0, 1}), (Numerics.STATISTICAL, {0})])
def test_harm_by_chance_is_looked_for_again_by_the_last_contract_alone(weakest: Numerics, starts: set[int]) -> None:
    other = world(harms={LEVER: 0.5})
    assert check(other, weakest=weakest).verdict is Verdict.HARMED
    assert {plan.reseed for plan in other.plans if plan.perturbation} == starts


def test_another_training_by_its_bookkeeping_fails_at_once() -> None:
    class Skipping(World):
        def run(self, plan: Plan) -> Run:
            run = super().run(plan)
            return replace(run, num_updates=(1, 0) * (len(run.step_s) // 2)) if plan.replaced else run

    skipping = Skipping(path="/train.py", sha256="0" * 64)
    assert check(skipping).verdict is Verdict.HARMED
    seeds = {plan.reseed for plan in skipping.plans}
    assert seeds == {0}, "no other seeds are wanted to see it"
    assert all(plan.evidence for plan in skipping.plans[1:]), "nor are times"


def test_other_batches_are_held_to_other_seeds_without_runs_of_what_rounding_does() -> None:
    class Otherwise(World):
        """The second version draws its batches in another order."""

        def run(self, plan: Plan) -> Run:
            run = super().run(plan)
            if not (plan.replaced and plan.evidence and run.batch_digest):
                return run
            others = tuple(f"other {digest}" for digest in run.batch_digest)
            return replace(run, batch_digest=others, rng_digest=others)

    other = Otherwise(path="/train.py", sha256="0" * 64, harms={LEVER: 1e-3})
    found = check(other)
    assert (found.verdict, found.contract) == (Verdict.UNHARMED, "statistical")
    compared = [plan for plan in other.plans if plan.replaced and plan.evidence and plan.reseed == 0]
    assert len(compared) == 2, "by bits, and beside other seeds"


def test_the_budget_is_first_for_the_training_and_then_for_times() -> None:
    class Rounded(World):
        """The second version rounds otherwise, so that it takes more runs to pass it."""

        def run(self, plan: Plan) -> Run:
            run = super().run(plan)
            if not (plan.replaced and plan.evidence):
                return run
            return replace(run, loss=tuple(float(loss or 0) * (1 + 1e-9) for loss in run.loss))

    rounded = Rounded(path="/train.py", sha256="0" * 64)
    found = check(rounded)
    assert (found.verdict, found.contract) == (Verdict.UNHARMED, "rounding")
    for_training = [plan.evidence for plan in rounded.plans[1:]]
    assert for_training == sorted(for_training, reverse=True)
    assert not all(for_training)


@pytest.mark.parametrize("budget_s", range(20, 200, 20))
@pytest.mark.parametrize("harm", [0.0, 1e-9, 0.5])
def test_a_short_budget_is_for_what_can_be_decided(harm: float, budget_s: float) -> None:
    """A pair of processes takes 9 s here, a run for the gate 8 s."""
    seen = world(harms={LEVER: harm}, start_s=5.0, step_s=0.01)
    found = check(seen, budget_s=budget_s)
    timed = [plan for plan in seen.plans if plan.afresh]
    if found.verdict is Verdict.UNDECIDED:
        assert not timed or seen.clock < budget_s, "times are no use where it stays open whether training is the same"
    assert seen.clock < max(budget_s, 40.0) + 4 * 10.0
    if harm == 0.0 and budget_s >= 80.0 and found.speed is Speed.INCONCLUSIVE:
        assert seen.clock > budget_s - 10.0, "what is left is for times"


def test_the_second_text_runs_in_the_place_of_the_first() -> None:
    seen = world()
    check(seen)
    texts = [dict(plan.replaced) for plan in seen.plans]
    assert {} in texts
    assert all(text in ({}, {seen.path: EDIT}) for text in texts)


def test_a_version_that_fails_is_no_verdict() -> None:
    class Crashing(World):
        def run(self, plan: Plan) -> Run:
            if plan.replaced:
                return Run(status=Status.CRASHED, error="RuntimeError: planted", arms=plan.arms)
            return super().run(plan)

    with pytest.raises(ScriptFailed, match=r"The second version cannot be compared: .*planted"):
        check(Crashing(path="/train.py", sha256="0" * 64))


class Marked(World):
    """Of the marks in a text only these are passed."""

    passed: tuple[int, ...] = ()

    def run(self, plan: Plan) -> Run:
        return replace(super().run(plan), marks=self.passed)


OTHER = f"{EDIT}\nloader.late()\n"


def marked(*passed: int, harm: float = 0.0) -> Marked:
    found = Marked(path="/train.py", sha256="0" * 64, harms={LEVER: harm})
    found.passed = passed
    return found


def test_what_is_edited_and_did_not_run_is_inconclusive() -> None:
    found = check(marked(), before=EDIT, after=OTHER)
    assert (found.verdict, found.contract) == (Verdict.UNDECIDED, "exact")
    assert "but line 2 of the second version had no part in them" in found.why
    gone = check(marked(), before=OTHER, after=EDIT)
    assert "line 2 of the first version" in gone.why


def test_what_is_edited_and_ran_passes_in_as_many_steps_as_were_compared() -> None:
    seen = marked(0)
    found = check(seen, before=EDIT, after=OTHER)
    assert found.verdict is Verdict.UNHARMED
    compared = next(plan for plan in seen.plans if plan.evidence)
    with_marks = [plan for plan in seen.plans if "__hotlap_passed__" in plan.replaced.get(seen.path, "")]
    assert [(plan.steps, plan.warmup, plan.evidence, plan.afresh) for plan in with_marks] == [
        (compared.steps, 0, False, True)
    ]


@pytest.mark.parametrize("budget_s", range(20, 200, 20))
def test_times_come_out_of_a_short_budget_and_no_pass_where_it_was_not_seen_that_all_ran(budget_s: float) -> None:
    """A pair of processes takes 9 s here, a run for the gate 8 s, one with marks less."""
    seen = marked(0)
    seen.start_s, seen.step_s = 5.0, 0.01
    found = check(seen, before=EDIT, after=OTHER, budget_s=budget_s)
    looked = any("__hotlap_passed__" in text for plan in seen.plans for text in plan.replaced.values())
    assert (found.verdict is Verdict.UNHARMED) == looked
    if budget_s >= 80.0:
        assert found.step is not None
    if budget_s >= 100.0:
        assert looked
    if not looked:
        assert "raise --budget" in found.why


class Crowded(World):
    """Once the first look is over others work on the machine. What is not over by its limit is ended."""

    def __call__(self, plans: Sequence[Plan], *, limit_s: float) -> list[Run]:
        begun, first = self.clock, not self.plans
        runs = super().__call__(plans, limit_s=limit_s)
        took_s = (self.clock - begun) * (1 if first else 8)
        self.clock = begun + min(took_s, limit_s)
        return runs if took_s <= limit_s else [Run(status=Status.HUNG, error="no step") for _ in runs]


@pytest.mark.parametrize("budget_s", [30.0, 60.0, 120.0, 300.0])
@pytest.mark.parametrize("harm", [0.0, 1e-9])
def test_the_budget_is_kept_where_all_takes_longer_than_the_first_look_promised(harm: float, budget_s: float) -> None:
    crowded = Crowded(path="/train.py", sha256="0" * 64, harms={LEVER: harm}, start_s=5.0, step_s=0.01)
    found = check(crowded, budget_s=budget_s, before=EDIT, after=OTHER)
    assert crowded.clock <= 1.15 * budget_s + 0.1
    assert found.verdict is Verdict.UNDECIDED
    assert "raise --budget" in found.why


def test_of_what_was_interrupted_it_is_known_what_was_compared_until_then() -> None:
    class Interrupted(Marked):
        def __call__(self, plans: Sequence[Plan], *, limit_s: float) -> list[Run]:
            if sum(plan.afresh for plan in self.plans) == 2 * 3:
                raise KeyboardInterrupt
            return super().__call__(plans, limit_s=limit_s)

    seen = Interrupted(path="/train.py", sha256="0" * 64, costs={LEVER: 0.5})
    options = options_for(seen.path)
    log = StudyLog(new_study(options), options, MACHINE, seen, Silent(), now=seen.now)
    one = Check(log, {seen.path: OTHER}, before={seen.path: EDIT})
    assert one.found.verdict is Verdict.UNDECIDED
    with pytest.raises(KeyboardInterrupt):
        one.run()
    assert one.found.verdict is Verdict.UNDECIDED, "it was not looked whether all that is edited ran"
    assert one.found.why.startswith("Losses, batches and random states are bit-equal")
    assert one.found.step is not None
    assert one.found.step.low > 1


def test_harm_is_harm_whether_all_ran_or_not() -> None:
    seen = marked(harm=0.5)
    assert check(seen, before=EDIT, after=OTHER, weakest=Numerics.EXACT).verdict is Verdict.HARMED
    assert not any("__hotlap_passed__" in text for plan in seen.plans for text in plan.replaced.values())


def test_an_error_path_that_did_not_run_passes_with_a_warning() -> None:
    text = f"try:\n    {EDIT}\nexcept OSError:\n    x = 1\n"
    found = check(marked(), before=text, after=text.replace("x = 1", "x = 2"))
    assert found.verdict is Verdict.UNHARMED
    assert [warning for warning in found.warnings if "line 4 of the second version did not run" in warning]


def test_of_many_lines_some_are_named() -> None:
    late = "".join(f"late({k})\n" for k in range(20))
    found = check(marked(), before=EDIT, after=f"{EDIT}\n{late}")
    assert "lines 2, 3, 4, 5, 6, 7, 8, 9 and 12 more of the second version" in found.why


def test_a_run_with_marks_that_fails_is_told() -> None:
    class Failing(Marked):
        def run(self, plan: Plan) -> Run:
            if "__hotlap_passed__" in plan.replaced.get(self.path, ""):
                return Run(status=Status.CRASHED, error="RuntimeError: planted", arms=plan.arms)
            return super().run(plan)

    found = check(Failing(path="/train.py", sha256="0" * 64), before=EDIT, after=OTHER)
    assert found.verdict is Verdict.UNDECIDED
    assert "planted" in found.why

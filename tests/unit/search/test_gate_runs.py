"""The runs that the gate is given: how many, and what is set apart."""

from dataclasses import replace

import pytest

from hotlap.experiment import Sizes
from hotlap.record import LeverSpec, Plan, Run, Status, Verdict
from hotlap.search import Options, StudyLog
from hotlap.search.gate_runs import GateRuns
from tests.unit.tune.world import MACHINE, AnyScript, Silent, World, new_study, options_for

EXACT: tuple[LeverSpec, ...] = ({"name": "cached-dataset"},)
OTHER_NUMBERS: tuple[LeverSpec, ...] = ({"name": "bf16-autocast"},)

SIZES = Sizes(step_s=0.003, setup_s=4.0, block=11, steps=110, warmup=20, evidence_steps=200, together=2, cores=2.0)


def gate_runs_of(world: World) -> GateRuns:
    return gate_runs_in(world, SIZES, options_for(world.path))


def gate_runs_in(world: World, sizes: Sizes, options: Options) -> GateRuns:
    log = StudyLog(new_study(options), options, MACHINE, world, Silent(), now=world.now)
    log.script = AnyScript()
    return GateRuns(log, log.executor(sizes))


@pytest.mark.parametrize("stack", [EXACT, OTHER_NUMBERS])
def test_what_is_known_is_not_counted_again(stack: tuple[LeverSpec, ...]) -> None:
    world = World(path="/train.py", sha256="0" * 64)
    gate = gate_runs_of(world)
    before_s = gate.estimate_s(stack)
    gate.judge(stack)
    made = len(world.plans)
    after_s = gate.estimate_s(stack)
    gate.judge(stack)
    again = len(world.plans) - made
    assert again < made
    assert after_s < before_s
    assert after_s >= 0.5 * again * SIZES.evidence_s(200), "two at a time share their start, and one may end alone"


@pytest.mark.parametrize("lever", ["bf16-autocast", "channels-last"])
def test_the_estimate_is_of_one_look(lever: str) -> None:
    world = chance(range(0), lever)
    gate = gate_runs_of(world)
    gate.look()
    before_s, made = gate.estimate_s(({"name": lever},)), len(world.plans)
    assert gate.judge(({"name": lever},)).verdict is Verdict.UNHARMED
    num_pairs = (len(world.plans) - made) / 2
    assert before_s == pytest.approx(num_pairs * SIZES.evidence_s(200, 200), rel=0.3)


def test_harm_by_chance_that_finds_no_time_for_other_seeds_is_no_verdict() -> None:
    world = chance(range(5))
    first_look_s = gate_runs_of(world).estimate_s(OTHER_NUMBERS)
    gate = gate_runs_in(world, SIZES, options_for(world.path, budget_s=0.5 * first_look_s, long_budget_s=None))
    ruling = gate.judge(OTHER_NUMBERS)
    assert ruling.verdict is Verdict.UNDECIDED
    assert ruling.why.endswith("Other seeds may tell, and there was no time for them: raise --budget.")
    assert max(plan.reseed for plan in world.plans) < 5


class Fails(World):
    """The first `most` runs of the baseline with this perturbation end in an error."""

    perturbation, most = 0, 1

    def run(self, plan: Plan) -> Run:
        if plan.always or plan.perturbation != self.perturbation or not self.most:
            return super().run(plan)
        self.most -= 1
        return Run(status=Status.CRASHED, error="OSError: planted", perturbation=plan.perturbation)


@pytest.mark.parametrize("perturbation", [0, 2])
def test_a_run_of_the_baseline_that_fails_once_is_made_again_and_one_that_fails_twice_is_told(
    perturbation: int,
) -> None:
    """No lever could be judged beside it, and what was accepted would be refused in the end."""
    for most, verdict in ((1, Verdict.UNHARMED), (2, Verdict.UNDECIDED)):
        world = Fails(path="/train.py", sha256="0" * 64)
        world.perturbation, world.most = perturbation, most
        ruling = gate_runs_of(world).judge(({"name": "fused-optimizer"},))
        assert ruling.verdict is verdict
        assert ("OSError: planted" in ruling.why) is (verdict is Verdict.UNDECIDED)


class Chance(World):
    """A lever whose harm shows with some seeds only."""

    unlucky: range = range(0)
    lever: str = "bf16-autocast"
    harm: float = 0.5

    def run(self, plan: Plan) -> Run:
        self.harms = {self.lever: self.harm} if plan.reseed in self.unlucky else {}
        return super().run(plan)


def chance(unlucky: range, lever: str = "bf16-autocast") -> Chance:
    world = Chance(path="/train.py", sha256="0" * 64)
    world.unlucky, world.lever = unlucky, lever
    return world


def test_harm_that_a_statistical_test_found_is_looked_for_with_other_seeds_before_it_is_believed() -> None:
    world = chance(range(5))
    world.harm = 0.04
    ruling = gate_runs_of(world).judge(OTHER_NUMBERS)
    assert ruling.verdict is Verdict.UNHARMED
    assert "With the first seeds it was otherwise: " in ruling.why
    with_lever = [plan.reseed for plan in world.plans if plan.always]
    assert sorted(with_lever) == list(range(10)), "each seed once"


def test_harm_that_other_seeds_show_as_well_is_harm() -> None:
    ruling = gate_runs_of(chance(range(10))).judge(OTHER_NUMBERS)
    assert ruling.verdict is Verdict.HARMED
    assert "With other seeds: " in ruling.why


def test_both_looks_over_seeds_are_one_test() -> None:
    """Seeds that show nothing by themselves do not make harmless what all ten leave open."""
    ruling = gate_runs_of(chance(range(5))).judge(OTHER_NUMBERS)
    assert ruling.verdict is Verdict.UNDECIDED
    assert ruling.why.startswith("10 seeds do not settle")


@pytest.mark.parametrize(("unlucky", "verdict"), [(range(1), Verdict.UNHARMED), (range(2), Verdict.HARMED)])
def test_losses_beyond_rounding_are_looked_for_from_another_start(unlucky: range, verdict: Verdict) -> None:
    world = chance(unlucky, "channels-last")
    assert gate_runs_of(world).judge(({"name": "channels-last"},)).verdict is verdict
    assert {plan.reseed for plan in world.plans if plan.perturbation} == {0, 1}


class Scattered(World):
    """A lever under which losses scatter about those of the baseline, evenly or not."""

    steady: float = 0.0

    def run(self, plan: Plan) -> Run:
        self.harms = {"bf16-autocast": self.steady + (0.07 if plan.reseed % 2 else -0.07)}
        return super().run(plan)


@pytest.mark.parametrize(("steady", "verdict"), [(0.0, Verdict.UNHARMED), (0.03, Verdict.UNDECIDED)])
def test_what_five_seeds_do_not_settle_is_held_to_ten(steady: float, verdict: Verdict) -> None:
    world = Scattered(path="/train.py", sha256="0" * 64)
    world.steady = steady
    gate = gate_runs_of(world)
    ruling = gate.judge(OTHER_NUMBERS)
    assert ruling.verdict is verdict, ruling.why
    assert "10 seeds" in ruling.why
    assert sorted(plan.reseed for plan in world.plans if plan.always) == list(range(10)), "each seed once"
    first_look_s = gate_runs_of(world).estimate_s(OTHER_NUMBERS)
    hasty = gate_runs_in(world, SIZES, options_for(world.path, budget_s=0.5 * first_look_s, long_budget_s=None))
    assert hasty.judge(OTHER_NUMBERS).why.endswith("there was no time for them: raise --budget.")


def test_harm_that_is_no_matter_of_chance_is_not_looked_for_again() -> None:
    class Lost(World):
        def run(self, plan: Plan) -> Run:
            found = super().run(plan)
            return replace(found, num_updates=(0, *found.num_updates[1:])) if plan.always else found

    world = Lost(path="/train.py", sha256="0" * 64)
    assert gate_runs_of(world).judge(OTHER_NUMBERS).verdict is Verdict.HARMED
    assert not any(plan.reseed >= 5 for plan in world.plans)


class Endless(World):
    """No run sees an epoch's end; one that looks for it makes twice its steps."""

    def run(self, plan: Plan) -> Run:
        steps = plan.steps * (1 + plan.whole_epoch)
        return replace(super().run(replace(plan, steps=steps)), epoch_starts=(0,))


@pytest.mark.parametrize(
    ("epoch_steps", "budget_s", "goes_on"),
    [(150, 300.0, True), (780, 300.0, True), (780, 20.0, False), (900, 300.0, False), (None, 300.0, True)],
)
def test_a_run_goes_on_for_an_epochs_end_only_where_that_is_near(
    epoch_steps: int | None, budget_s: float, goes_on: bool
) -> None:
    """200 steps are wanted, and such a run goes on to 800 at most; what 590 steps more take is compared with the
    budget."""
    world = Endless(path="/train.py", sha256="0" * 64)
    sizes = replace(SIZES, epoch_steps=epoch_steps)
    gate = gate_runs_in(world, sizes, options_for(world.path, budget_s=budget_s))
    gate.look()
    ((plan,), (run,)) = world.plans, gate.known
    assert plan.whole_epoch is goes_on
    assert [note for note in run.notes if "its runs end after 200" in note] or goes_on
    ruling = gate.judge(OTHER_NUMBERS)
    assert "no epoch's end among them" in ruling.why
    later = world.plans[1:]
    assert not any(plan.whole_epoch for plan in later), "what the first run did not see no other is to look for"
    of_one_seed = {plan.steps for plan in later if not plan.reseed and not plan.perturbation}
    assert of_one_seed == {400 if goes_on else 200}, "as many as the first one made"

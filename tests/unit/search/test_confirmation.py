"""What whole trainings at the end of a study are expected to take, and the time that is kept for one pair of them."""

from dataclasses import replace

import pytest

from hotlap.experiment import Arm, Effect, Sizes
from hotlap.record import Phase, Run
from hotlap.search import GateRuns, StudyLog
from hotlap.search.confirmation import Confirmation, _expected_s, whole_trainings_s
from hotlap.search.study_log import Budget
from tests.unit.tune.world import LOADER, MACHINE, Silent, World, new_study, options_for

# An epoch of 16 steps (`LOADER`); 160 of 10 ms are ten epochs, behind a start of 2 s.
STEP_S, START_S, NUM_STEPS, NUM_EPOCHS = 0.01, 2.0, 160, 10


def run_of(*, validation_s: float = 0.0) -> Run:
    """A process that was timed for some steps; with a validation it has seen an epoch's end."""
    world = World(path="/home/ada/train.py", sha256="0" * 64)
    run = world.run(replace(options_for(world.path).plan, steps=20, warmup=4))
    return replace(
        run,
        setup_s=START_S + STEP_S,
        own_start_s=0.0,
        first_steps_s=(STEP_S,) * 4,
        step_s=(STEP_S,) * 20,
        phase_s=dict.fromkeys(Phase, None),
        loaders=(LOADER,),
        epoch_starts=(12,) if validation_s else (),
        validation_s=validation_s,
        num_validations=1 if validation_s else 0,
    )


def log_of(
    run: Run, *, budget_s: float = 300.0, total_steps: int | None = NUM_STEPS, named: int | None = None
) -> StudyLog:
    """A study that knows this baseline. `named`: the length that the user asked about."""
    world = World(path="/home/ada/train.py", sha256="0" * 64)
    options = replace(options_for(world.path), budget_s=budget_s, total_steps=named)
    study = replace(new_study(options), baseline=(run,), total_steps=named or total_steps)
    return StudyLog(study, options, MACHINE, world, Silent(), now=world.now)


def gate_of(log: StudyLog) -> GateRuns:
    return GateRuns(log, log.executor(Sizes.of(log.study.baseline[0], MACHINE)))


def test_a_planned_whole_training_holds_its_epochs_ends() -> None:
    run = run_of()
    steps_s = START_S + NUM_STEPS * STEP_S
    assert _expected_s(log_of(run), run, end_s=0.0) == pytest.approx(steps_s)
    # The first four steps are those that were made; each later one has its part of an epoch's end.
    ends_s = (NUM_STEPS - 4) / 16 * 0.8
    assert _expected_s(log_of(run), run, end_s=0.8) == pytest.approx(steps_s + ends_s)
    seen = run_of(validation_s=0.8)
    assert _expected_s(log_of(seen), seen, end_s=9.0) == pytest.approx(steps_s + ends_s), "the run saw one itself"


def test_nothing_is_planned_where_the_length_is_not_known_or_not_the_scripts_own() -> None:
    run = run_of()
    assert _expected_s(log_of(run, total_steps=None), run, end_s=0.8) is None
    assert _expected_s(log_of(run, named=5000), run, end_s=0.8) is None
    log = log_of(run, total_steps=None)
    assert whole_trainings_s(log, gate_of(log)) == 0.0


def test_time_is_kept_for_one_pair_where_that_is_not_too_much() -> None:
    run = run_of()
    pair_s = 2 * (START_S + NUM_STEPS * STEP_S)
    for pairs_in_budget, kept in ((20.0, 1), (2.6, 1), (2.4, 0)):
        log = log_of(run, budget_s=pairs_in_budget * pair_s)
        assert whole_trainings_s(log, gate_of(log)) == pytest.approx(kept * pair_s), pairs_in_budget


@pytest.mark.parametrize("spent_before_s", [100.0, 700.0])
def test_the_fewest_trial_groups_are_made_late_as_well_but_not_for_ever(spent_before_s: float) -> None:
    log = log_of(run_of())
    now = 0.0
    log.budget = Budget(300.0, longer_s=540.0, spent_s=spent_before_s, now=lambda: now)
    gate = gate_of(log)
    one = Confirmation(log, gate._executor, gate, ({"name": "malloc", "huge_pages": False},))
    effect = Effect(Arm(), None, log_ratios=[0.1])
    assert one._has_time(effect), "the fewest are made, however late the search has ended"
    end_s = max(spent_before_s, 540.0) - spent_before_s
    now = end_s + 100.0
    assert one._has_time(effect), "and somewhat beyond the longer budget"
    now = end_s + 200.0
    assert not one._has_time(effect)
    effect.log_ratios += [0.1] * 3
    now = end_s + 50.0
    assert not one._has_time(effect), "more of them only within it"

"""What each rule says, word by word, and where its threshold lies."""

from dataclasses import replace

import pytest

from hotlap import rules
from hotlap.record import Phase, Run
from hotlap.rules import compute_bound, host_bound, input_bound, optimizer_bound
from tests.sample_runs import loader, optimizer, run_with


def run_of(**phases: float) -> Run:
    return run_with(phases={Phase(name): seconds for name, seconds in phases.items()})


def test_input_bound_says_how_long_a_step_waits_and_who_makes_the_batch() -> None:
    run = replace(run_with(step_s=0.100, input_s=0.040), loaders=(loader(),))
    finding = input_bound.check(run)
    assert finding is not None
    assert finding.cost_s == pytest.approx(0.040)
    assert finding.evidence == (
        "Each step waits 40.0 ms (40% of it) for its batch, made by the training process itself."
    )
    workers = replace(run, loaders=(replace(loader(), num_workers=4),))
    finding = input_bound.check(workers)
    assert finding is not None
    assert finding.evidence == "Each step waits 40.0 ms (40% of it) for its batch of 4 workers."


def test_input_bound_looks_at_the_loader_that_is_trained_on() -> None:
    validation = replace(loader(), num_workers=8, trained_on=False)
    run = replace(run_with(step_s=0.100, input_s=0.040), loaders=(validation, replace(loader(), id=1)))
    finding = input_bound.check(run)
    assert finding is not None
    assert "itself" in finding.evidence


def test_input_bound_knows_nothing_of_a_loader_it_did_not_see() -> None:
    finding = input_bound.check(run_with(step_s=0.100, input_s=0.040))
    assert finding is not None
    assert finding.evidence == "Each step waits 40.0 ms (40% of it) for its batch."


def test_optimizer_bound_counts_what_is_updated() -> None:
    run = replace(run_of(forward=0.004, backward=0.004, optimizer=0.002), optimizers=(optimizer(), optimizer()))
    finding = optimizer_bound.check(run)
    assert finding is not None
    assert finding.evidence == (
        "Each step spends 2.00 ms (20% of it) in the optimizer, for 407,060 parameters in 8 tensors."
    )


def test_optimizer_bound_needs_an_optimizer() -> None:
    assert optimizer_bound.check(run_of(forward=0.004, optimizer=0.006)) is None


def test_host_bound_is_about_the_scripts_own_python() -> None:
    finding = host_bound.check(run_of(forward=0.004, backward=0.004, other=0.002))
    assert finding is not None
    assert finding.evidence == "Each step spends 2.00 ms (20% of it) in the script's own Python."
    assert finding.try_levers == ()


def test_host_bound_is_silent_when_the_model_hides_in_other() -> None:
    assert host_bound.check(run_of(backward=0.004, other=0.006)) is None


def test_compute_bound_says_how_much_is_forward_and_how_much_backward() -> None:
    finding = compute_bound.check(run_of(forward=0.003, backward=0.005, other=0.002))
    assert finding is not None
    assert finding.evidence == ("Each step spends 8.00 ms (80% of it) in the model: 30% forward, 50% backward.")


@pytest.mark.parametrize(
    ("check", "phase", "least"),
    [
        (input_bound.check, "input", input_bound.MIN_SHARE),
        (optimizer_bound.check, "optimizer", optimizer_bound.MIN_SHARE),
        (host_bound.check, "other", host_bound.MIN_SHARE),
    ],
    ids=["input", "optimizer", "host"],
)
def test_the_threshold_is_where_it_is_said_to_be(check: rules.Rule, phase: str, least: float) -> None:
    def run_at(share: float) -> Run:
        return replace(run_of(**{"forward": 1 - share, phase: share}), optimizers=(optimizer(),))

    assert check(run_at(least * 1.001)) is not None
    assert check(run_at(least * 0.999)) is None


def test_a_healthy_training_is_found_compute_bound_and_nothing_else() -> None:
    run = run_of(input=0.0001, forward=0.004, backward=0.005, optimizer=0.0004, other=0.0001)
    assert [finding.code for finding in rules.check(run)] == ["compute-bound"]

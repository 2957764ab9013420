"""What could be gained at best, where a device has its own clock."""

from dataclasses import replace

import pytest

from hotlap.record import Phase, Run
from hotlap.rules import host_bound, launch_bound
from hotlap.tune.diagnosis import ceilings
from tests.rule_runs import calls, device_window, firing, healthy, run_of_shares

# The host spends nearly all of its step in the copy, behind the kernels of the step before.
HOST = {Phase.TRANSFER: 0.9, Phase.FORWARD: 0.05, Phase.BACKWARD: 0.05}


def on_gpu(**parts: float) -> Run:
    """Steps of 10 ms, of which the device's stream passes so much in each phase."""
    run = run_of_shares(HOST, device="NVIDIA H200")
    phases = {Phase(name): (seconds,) * 16 for name, seconds in parts.items()}
    return replace(run, device_phase_s=phases, operators=device_window(step_s=0.01, gap=0.1, exposed=0.4))


def steps_without(run: Run) -> dict[str, float]:
    return {ceiling.name: ceiling.step_s for ceiling in ceilings(run)}


def test_free_copies_save_what_the_device_copies_while_it_computes_nothing() -> None:
    assert steps_without(on_gpu(forward=0.003))["transfers"] == pytest.approx(0.006)


def test_what_the_host_spends_behind_kernels_in_the_queue_can_not_be_saved() -> None:
    run = on_gpu(input=0.0, optimizer=0.002, other=0.005)
    found = steps_without(run)
    assert found["optimizer"] == pytest.approx(0.008), "by the device's clock"
    assert "input" not in found
    assert found["host"] == pytest.approx(0.0088), "the device idles for 1.2 ms"


def test_launches_cost_what_the_device_idles_for_no_other_reason() -> None:
    assert steps_without(on_gpu(forward=0.003))["launches"] == pytest.approx(0.0088)
    assert steps_without(on_gpu(input=0.0006))["launches"] == pytest.approx(0.0094)


def test_a_ceiling_that_may_be_anything_is_none() -> None:
    run = run_of_shares({Phase.INPUT: 0.5, Phase.FORWARD: 0.5})
    assert [ceiling.name for ceiling in ceilings(run)] == ["input"]
    steps = len(run.step_s)
    waits = tuple(s * (0.0 if i < steps / 2 else 0.98) for i, s in enumerate(run.step_s))
    wide = replace(run, phase_s={**run.phase_s, Phase.INPUT: waits})
    assert ceilings(wide) == ()


def test_free_batches_that_say_nothing_leave_the_bound_of_the_phase() -> None:
    run = run_of_shares({Phase.INPUT: 0.5, Phase.FORWARD: 0.5})
    (noisy,) = ceilings(run, free=(0.1, 1.5, 3.0))
    (few,) = ceilings(run, free=(0.70, 0.71))
    (clear,) = ceilings(run, free=(0.70, 0.71, 0.72))
    assert noisy.idealised == few.idealised == "no wait for a batch"
    assert clear.idealised.startswith("batches replayed")


def test_free_calls_are_worth_what_the_finding_says_that_they_cost() -> None:
    run = firing("launch-bound")
    finding = launch_bound.check(run)
    assert finding is not None
    assert steps_without(run)["launches"] == pytest.approx(run.step_s[0] - finding.cost_s)


def test_free_python_is_worth_what_the_finding_says_that_it_costs_within_the_model_as_well() -> None:
    for run in (firing("host-bound"), replace(healthy(), calls=calls(step_s=0.01, arithmetic=0.3))):
        finding = host_bound.check(run)
        assert finding is not None
        assert steps_without(run)["host"] == pytest.approx(run.step_s[0] - finding.cost_s)

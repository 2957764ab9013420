"""How long trial groups are expected to take."""

from dataclasses import replace

import pytest

from hotlap.experiment import Sizes
from hotlap.record import Run, Status
from tests.unit.tune.world import MACHINE

FIRST = Sizes(step_s=0.01, setup_s=6.0, block=11, steps=100, warmup=20, evidence_steps=60, together=2, cores=2.0)


def test_starts_that_were_learnt_hold_for_the_confirmation_too_where_all_start_alike() -> None:
    sizes = FIRST.after([3.0, 2.0, 4.0], forked=False)
    assert sizes.trial_group_s(2) == sizes.trial_group_s(2, afresh=True) == FIRST.trial_group_s(2) - 3.0


def test_the_confirmation_makes_the_imports_that_forks_need_not_make() -> None:
    sizes = FIRST.after([1.0], forked=True)
    assert sizes.trial_group_s(2) == pytest.approx(FIRST.trial_group_s(2) - 5.0)
    assert sizes.trial_group_s(2, afresh=True) == FIRST.trial_group_s(2)


def test_the_confirmation_goes_on_to_the_end_of_an_epoch_where_that_takes_as_much_again_at_most() -> None:
    seen = replace(FIRST, epoch_steps=380)
    assert seen.beyond_s == pytest.approx(2.7), "beside two starts and 2 s of steps"
    assert replace(FIRST, epoch_steps=391).beyond_s is None, "a run goes on to four times its steps"
    assert FIRST.beyond_s is None
    slow = replace(FIRST, step_s=0.1, setup_s=0.5)
    assert replace(slow, epoch_steps=300).beyond_s and replace(slow, epoch_steps=380).beyond_s is None, "19 s, 27 s"
    assert seen.trial_group_s(2, afresh=True) == pytest.approx(FIRST.trial_group_s(2) + 2 * 2.7)
    assert seen.trial_group_s(2) == FIRST.trial_group_s(2)


def test_runs_for_the_gate_that_start_at_the_same_time_start_once_as_far_as_there_are_cores() -> None:
    one_s, two_s = FIRST.evidence_s(60), FIRST.evidence_s(60, 60)
    assert FIRST.evidence_s() == one_s
    assert two_s < 2 * one_s - 0.9 * FIRST.setup_s
    assert replace(FIRST, cores=1.0).evidence_s(60, 60) == pytest.approx(two_s + FIRST.setup_s)
    assert replace(FIRST, together=1).evidence_s(60, 60) == pytest.approx(two_s + FIRST.setup_s)


def test_a_pause_of_the_machine_is_no_part_of_each_step_and_a_loaders_bursts_are() -> None:
    def planned(*step_s: float) -> Sizes:
        return Sizes.of(Run(status=Status.COMPLETE, device="cpu", step_s=step_s), MACHINE)

    quiet = planned(*[0.01] * 200)
    assert planned(*[0.01] * 199, 3.0) == quiet
    assert planned(*[0.01, 0.01, 0.01, 0.05] * 50).step_s == pytest.approx(0.02)


@pytest.mark.parametrize(
    ("step_s", "budget_s", "num_steps"),
    [(0.05, 300.0, 100), (0.05, 900.0, 300), (0.05, 60.0, 100), (0.001, 900.0, 400)],
)
def test_what_a_longer_budget_holds_is_looked_at(step_s: float, budget_s: float, num_steps: int) -> None:
    """A harm that begins behind the compared steps is seen by none of them."""
    run = Run(status=Status.COMPLETE, device="cpu", step_s=(step_s,) * 50)
    assert Sizes.of(run, MACHINE, budget_s=budget_s).evidence_steps == num_steps


@pytest.mark.parametrize(
    ("reserved_gib", "free_gib", "together"),
    [
        (2, 70, 8),
        (8, 60, 5),  # 48 of them, for processes of 11
        (20, 50, 2),
        (40, 35, 1),
        (None, 70, 1),
        (2, None, 1),
    ],
)
def test_on_a_device_as_many_take_turns_as_its_memory_holds(
    reserved_gib: int | None, free_gib: int | None, together: int
) -> None:
    reserved, free = (None if gib is None else gib << 30 for gib in (reserved_gib, free_gib))
    run = Run(
        status=Status.COMPLETE,
        device="NVIDIA H100",
        step_s=(0.01,) * 200,
        rss_peak_bytes=1 << 30,
        device_reserved_bytes=reserved,
        device_free_bytes=free,
    )
    assert Sizes.of(run, MACHINE).together == min(together, 7), "7 are what the host's 12 GiB hold"
    assert Sizes.of(replace(run, world_size=2), MACHINE).together == 1

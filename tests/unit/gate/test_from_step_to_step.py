"""What shows in a few steps: behind an epoch's begin, from one step to the next, or beside bit-equal losses."""

from dataclasses import replace

import pytest

from hotlap.gate import Evidence, judge
from hotlap.record import Run, Verdict, as_float
from tests.unit.gate.trainer import NUM_STEPS, Training, evidence

PLAIN = Training(seed=3)
# A state that is carried from step to step was reset here, ten steps before the record ends.
RESET_AT = NUM_STEPS - 10


def reset(run: Run, *, by: float) -> Run:
    loss = tuple(
        (as_float(one) or 0.0) * (1 + by * 0.9 ** (step - RESET_AT)) if step >= RESET_AT else one
        for step, one in enumerate(run.loss)
    )
    return replace(run, loss=loss)


def late_epoch(*, by: float) -> Evidence:
    """An epoch begins where the lever resets a state."""
    e = evidence(PLAIN, num_seeds=5)
    starts = {"epoch_starts": (0, RESET_AT)}
    return Evidence(
        base=tuple(replace(run, epoch_starts=(0, RESET_AT)) for run in e.base),
        lever=tuple(replace(reset(run, by=by), epoch_starts=(0, RESET_AT)) for run in e.lever),
        perturbed=tuple(replace(run, epoch_starts=(0, RESET_AT)) for run in e.perturbed),
        base_seeds=tuple(replace(run, epoch_starts=(0, RESET_AT)) for run in e.base_seeds),
        lever_seeds=tuple(replace(reset(run, by=by), **starts) for run in e.lever_seeds),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(("by", "verdict"), [(0.05, Verdict.HARMED), (0.0, Verdict.UNHARMED)])
@pytest.mark.parametrize("contract", ["exact", "rounding", "statistical"])
def test_a_state_that_is_reset_in_the_last_ten_steps_is_seen(contract: str, by: float, verdict: Verdict) -> None:
    assert judge(contract, late_epoch(by=by)).verdict is verdict


def test_losses_that_were_the_same_do_not_differ_by_a_hundredth_in_the_next_step() -> None:
    ruling = judge("statistical", late_epoch(by=0.05))
    assert f"The loss at step {RESET_AT} is" in ruling.why
    assert "and before 0 of it at most" in ruling.why
    assert not ruling.by_chance


@pytest.mark.parametrize("contract", ["rounding", "statistical"])
@pytest.mark.parametrize(("by", "verdict"), [(1e-3, Verdict.HARMED), (1e-6, Verdict.UNHARMED)])
def test_in_float32_losses_that_were_bit_equal_do_not_part_by_a_thousandth(
    contract: str, by: float, verdict: Verdict
) -> None:
    """As those of a sum whose weights are taken anew each epoch: far less than what rounding comes to in the end."""
    known = late_epoch(by=by).of_each(lambda run: replace(run, precision="4 bytes, highest"))
    ruling = judge(contract, known)
    assert ruling.verdict is verdict
    assert (f"The loss at step {RESET_AT} is" in ruling.why) is (verdict is Verdict.HARMED)
    assert ruling.by_chance is (contract == "rounding" and verdict is Verdict.HARMED)


def test_of_steps_that_no_perturbed_run_reaches_rounding_says_nothing() -> None:
    e = late_epoch(by=1e-4)
    short = tuple(replace(run, step_index=run.step_index[:RESET_AT], loss=run.loss[:RESET_AT]) for run in e.perturbed)
    ruling = judge("rounding", replace(e, perturbed=short))
    assert "rounding alone" not in ruling.why


@pytest.mark.parametrize(("share", "verdict"), [(1.5, Verdict.HARMED), (1.0, Verdict.UNHARMED)])
def test_where_losses_are_bit_equal_an_average_of_the_weights_comes_as_far_at_each_step(
    share: float, verdict: Verdict
) -> None:
    """As one that is updated twice as often: it is ahead for a few steps, and then where the other one is."""

    def averaged(runs: tuple[Run, ...], share: float) -> tuple[Run, ...]:
        return tuple(
            replace(
                run,
                untrained=("Net.weight",),
                updates=tuple(
                    replace(u, buffers=(0.1 * (u.step + 1) * (share if u.step == 1 else 1.0),))
                    for u in run.updates or ()
                ),
            )
            for run in runs
        )

    e = evidence(PLAIN, num_seeds=5)
    ruling = judge(
        "statistical",
        Evidence(
            base=averaged(e.base, 1.0),
            lever=averaged(e.lever, share),
            perturbed=averaged(e.perturbed, 1.0),
            base_seeds=averaged(e.base_seeds, 1.0),
            lever_seeds=averaged(e.lever_seeds, share),
        ),
    )
    assert ruling.verdict is verdict
    assert verdict is Verdict.UNHARMED or "Net.weight, which is not trained, has moved 1.5 times" in ruling.why

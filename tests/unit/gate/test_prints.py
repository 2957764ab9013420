"""Numbers that a script prints: which are compared with those of the baseline, and what is made of a difference."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from hotlap.gate import Evidence, judge
from hotlap.record import GIVEN, Run, Verdict
from tests.unit.gate.trainer import NUM_STEPS, Training, evidence

CONTRACTS = ("exact", "rounding", "statistical")
Line = Callable[[int], str]
"""Number of the run -> what it prints."""


def printing(baseline: Line, lever: Line) -> Evidence:
    """Runs that come to the same but for one line (or some) that they print at their middle."""
    e = evidence(Training(), num_seeds=5)

    def with_line(runs: tuple[Run, ...], line: Line, first: int) -> tuple[Run, ...]:
        middle = NUM_STEPS // 2
        return tuple(
            replace(run, printed=tuple((middle, text) for text in line(first + k).splitlines()))
            for k, run in enumerate(runs)
        )

    return Evidence(
        base=with_line(e.base, baseline, 0),
        lever=with_line(e.lever, lever, 0),
        perturbed=with_line(e.perturbed, baseline, 10),
        base_seeds=with_line(e.base_seeds, baseline, 20),
        lever_seeds=with_line(e.lever_seeds, lever, 20),
    )


def seeded(k: int, factor: float = 1.0) -> str:
    """A validation that depends on the seed alone."""
    return f"epoch 1: validation loss {factor * (0.4 + 0.01 * (k // 20) * (k % 20)):.4f}"


@pytest.mark.parametrize("contract", CONTRACTS)
def test_a_wrong_number_that_is_only_printed_is_harm(contract: str) -> None:
    ruling = judge(contract, printing(seeded, lambda k: seeded(k, 1.05)))
    assert ruling.verdict is Verdict.HARMED
    assert "the script prints" in ruling.why
    assert "validation loss #" in ruling.why


@pytest.mark.parametrize("contract", CONTRACTS)
@pytest.mark.parametrize("wrong", [0.5, -0.41, 1e-5, math.nan])
def test_a_scheduler_that_goes_by_another_number_is_harm(contract: str, wrong: float) -> None:
    e = printing(lambda k: f"{GIVEN}({0.4 + 0.001 * (k // 20) * (k % 20):.16e})", lambda k: f"{GIVEN}({wrong:.16e})")
    ruling = judge(contract, e)
    assert ruling.verdict is Verdict.HARMED
    assert "the script gives" in ruling.why and f"{GIVEN}(#)" in ruling.why


@pytest.mark.parametrize("contract", ["rounding", "statistical"])
@pytest.mark.parametrize(
    ("baseline", "lever"),
    [
        ("val loss 3.21e-03", "val loss 9.9e-03"),
        ("accuracy 0.934\naccuracy nan", "accuracy 0.134\naccuracy nan"),
        ("accuracy 0.934\naccuracy inf", "accuracy 0.134\naccuracy inf"),
        ("accuracy 0.934\naccuracy 0.951\naccuracy 0.958\naccuracy 1", "accuracy 0.1" + "\naccuracy 0.1" * 3),
    ],
)
def test_digits_of_exponents_and_of_what_is_no_number_hide_no_harm(contract: str, baseline: str, lever: str) -> None:
    assert judge(contract, printing(lambda _: baseline, lambda _: lever)).verdict is Verdict.HARMED


@pytest.mark.parametrize("contract", ["rounding", "statistical"])
def test_a_last_digit_before_an_exponent_is_no_harm(contract: str) -> None:
    e = printing(lambda _: "val loss 3.2e-03", lambda _: "val loss 3.3e-03")
    assert judge(contract, e).verdict is Verdict.UNHARMED


@pytest.mark.parametrize("contract", CONTRACTS)
def test_the_same_numbers_pass(contract: str) -> None:
    assert judge(contract, printing(seeded, seeded)).verdict is Verdict.UNHARMED


@pytest.mark.parametrize("contract", CONTRACTS)
def test_not_a_number_is_harm_where_there_is_one_in_the_baseline(contract: str) -> None:
    ruling = judge(contract, printing(seeded, lambda k: "epoch 1: validation loss nan"))
    assert ruling.verdict is Verdict.HARMED


@pytest.mark.parametrize("contract", ["rounding", "statistical"])
def test_a_last_digit_is_no_harm_where_numbers_may_be_rounded(contract: str) -> None:
    e = printing(seeded, lambda k: seeded(k, 1.0002))
    assert judge(contract, e).verdict is Verdict.UNHARMED
    assert judge("exact", e).verdict is Verdict.HARMED


@pytest.mark.parametrize("contract", CONTRACTS)
@pytest.mark.parametrize(
    ("baseline", "lever"),
    [
        ("took 12.345", "took 3.456"),
        ("loss 0.123, 12.34 s", "loss 0.123, 3.45 s"),
        ("loss 0.123 (850.1 samples/s)", "loss 0.123 (2850.1 samples/s)"),
        ("peak memory 1234", "peak memory 2345"),
        ("1234.5 MB in use", "2345.6 MB in use"),
        ("done at 12:30:05 on 2026-01-02", "done at 12:30:09 on 2026-01-03"),
        ("saved to /tmp/tmp_x1/net.pt", "saved to /tmp/tmp_y2/net.pt"),
        ("<Net object at 0x7f0011>", "<Net object at 0x7f0022>"),
        ("using 1234 threads", "another line altogether: 5"),
        ("step 4", "step 5"),
    ],
)
def test_times_amounts_and_other_words_are_not_compared(contract: str, baseline: str, lever: str) -> None:
    assert judge(contract, printing(lambda k: baseline, lambda k: lever)).verdict is Verdict.UNHARMED


@pytest.mark.parametrize("contract", CONTRACTS)
def test_what_differs_among_baseline_runs_is_no_harm_of_the_levers(contract: str) -> None:
    """A time without a word that tells so, among other things."""
    e = printing(lambda k: f"epoch 1 {10 + 0.7 * k:.3f}", lambda k: f"epoch 1 {9 - 0.3 * k:.3f}")
    assert judge("exact", e).verdict is Verdict.UNHARMED


def test_lines_are_matched_by_the_step_at_which_they_come() -> None:
    e = printing(seeded, lambda k: seeded(k, 1.05))
    late = tuple(replace(run, printed=((NUM_STEPS - 1, run.printed[0][1]),)) for run in e.lever)
    assert judge("exact", replace(e, lever=late)).verdict is Verdict.UNHARMED


def test_where_losses_are_bit_equal_a_perturbation_excuses_no_other_validation() -> None:
    def baseline(k: int) -> str:
        return f"validation loss {0.4 + (0.05 * (k - 9) if 10 <= k < 20 else 0):.4f}"

    assert judge("rounding", printing(baseline, lambda k: "validation loss 0.4001")).verdict is Verdict.UNHARMED
    ruling = judge("rounding", printing(baseline, lambda k: "validation loss 0.4200"))
    assert ruling.verdict is Verdict.HARMED
    assert "+0.02" in ruling.why


@pytest.mark.parametrize("contract", CONTRACTS)
def test_a_validation_of_the_same_weights_that_is_another_one_in_either_direction_is_harm(contract: str) -> None:
    """Of half of the data: seed by seed now more and now less, so that the mean over them says nothing."""
    ruling = judge(contract, printing(seeded, lambda k: seeded(k, 1.02 if k % 2 else 0.98)))
    assert ruling.verdict is Verdict.HARMED
    assert "the script prints" in ruling.why

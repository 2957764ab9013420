"""What the statistics promise, checked by simulation: coverage, power, and how often two equal things show a gain."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotlap.experiment.statistics import (
    FALSE_CONFIRMATION,
    FALSE_GAIN,
    Progress,
    Rule,
    interval,
    pool,
    smallest_gain,
)
from hotlap.experiment.table import log_ratio_of_runs, log_ratios_of_arms
from hotlap.experiment.total import break_even_step
from hotlap.record import Run, Status

Noise = Callable[[np.random.Generator, int], list[float]]


def normal(sd: float) -> Noise:
    return lambda rng, n: rng.normal(0, sd, n).tolist()


def heavy(sd: float) -> Noise:
    return lambda rng, n: (rng.standard_t(3, n) * sd / math.sqrt(3)).tolist()


def two_modes(share: float = 0.5) -> Noise:
    """Each process is fast or slow by 0.9 : 1.6, as measured on a busy machine; a ratio is of two such processes."""

    def draw(rng: np.random.Generator, n: int) -> list[float]:
        slow = rng.random((n, 2)) < share
        modes = (slow[:, 0] * 1.0 - slow[:, 1]) * math.log(1.6 / 0.9)
        return [float(x) for x in modes + rng.normal(0, 0.01, n)]

    return draw


NOISES = {
    "quiet": normal(0.008),
    "noisy": normal(0.05),
    "heavy": heavy(0.05),
    "two modes": two_modes(),
    "rarely slow": two_modes(0.2),
}
TRIALS = 2000


def coverage(noise: Noise, *, n: int, calibration: int) -> float:
    rng = np.random.default_rng(7)
    hits = 0
    for _ in range(TRIALS):
        found = interval(noise(rng, n), pooled_variance=pool([noise(rng, calibration)]))
        hits += found is not None and found.low <= 1.0 <= found.high
    return hits / TRIALS


# Coverage is counted over 2000 cases: one standard error is 0.5%, so 95% may come out as 0.935.
@pytest.mark.parametrize("name", ["quiet", "noisy", "heavy"])
@pytest.mark.parametrize(("n", "calibration"), [(2, 0), (3, 0), (5, 0), (2, 4), (3, 4), (5, 8)])
def test_intervals_cover_the_truth(name: str, n: int, calibration: int) -> None:
    assert coverage(NOISES[name], n=n, calibration=calibration) >= 0.935


@pytest.mark.parametrize("name", ["two modes", "rarely slow"])
@pytest.mark.parametrize(("n", "calibration"), [(3, 0), (4, 0), (2, 4), (3, 4), (5, 4), (3, 8)])
def test_intervals_cover_the_truth_where_processes_have_two_modes(name: str, n: int, calibration: int) -> None:
    assert coverage(NOISES[name], n=n, calibration=calibration) >= 0.935


def test_the_stated_weak_cases_are_as_weak_as_stated() -> None:
    assert 0.85 <= coverage(NOISES["two modes"], n=2, calibration=0) <= 0.89
    assert 0.90 <= coverage(NOISES["heavy"], n=1, calibration=4) <= 0.94
    assert 0.91 <= coverage(NOISES["rarely slow"], n=1, calibration=4) <= 0.95


@pytest.mark.parametrize("name", NOISES)
@pytest.mark.parametrize("calibration", [0, 3, 4, 8])
@pytest.mark.parametrize(
    ("planned", "false_gain"), [(5, FALSE_GAIN), (5, FALSE_CONFIRMATION), (16, FALSE_CONFIRMATION)]
)
def test_two_equal_things_claim_a_gain_as_rarely_as_promised(
    name: str, calibration: int, planned: int, false_gain: float
) -> None:
    rng = np.random.default_rng(11)
    claims = 0
    for _ in range(TRIALS):
        known = pool([NOISES[name](rng, calibration)])
        drawn = NOISES[name](rng, planned)
        for n in range(1, planned + 1):
            progress = Rule(planned=planned, false_gain=false_gain).progress(drawn[:n], known)
            if progress is not Progress.GO_ON:
                break
        if progress is Progress.GAIN:
            found = interval(drawn[:n], pooled_variance=known)
            assert found is not None and found.low > 1.0 and found.mid >= 1.02
            claims += 1
    assert claims / TRIALS < 2 * false_gain, "the other half is for noise that is not normal"


@pytest.mark.parametrize("name", ["quiet", "heavy", "two modes"])
def test_what_goes_on_with_its_ratios_spends_on_a_false_gain_what_two_rules_may(name: str) -> None:
    rng = np.random.default_rng(12)
    claims = 0
    for _ in range(TRIALS):
        known = pool([NOISES[name](rng, 4)])
        drawn = NOISES[name](rng, 16)
        first = [Rule().progress(drawn[:n], known) for n in range(1, 6)]
        again = [Rule(planned=16, earlier=5).progress(drawn[:n], known) for n in range(6, 17)]
        claims += Progress.GAIN in (*first, *again)
    assert claims / TRIALS < 2 * 2 * FALSE_GAIN, "the other half is for noise that is not normal"


def test_more_processes_show_what_the_first_left_undecided() -> None:
    rng = np.random.default_rng(13)
    found = {0: 0, 5: 0}
    for _ in range(200):
        known = pool([normal(0.022)(rng, 4)])
        drawn = [x + math.log(1.03) for x in normal(0.022)(rng, 12)]
        for earlier in found:  # seven more processes, with those before them and without
            progress = Rule(planned=7 + earlier, earlier=earlier).progress(drawn[: 7 + earlier], known)
            found[earlier] += progress is Progress.GAIN
    assert found[5] > 1.1 * found[0]


def test_a_gain_well_above_the_noise_is_found() -> None:
    rng = np.random.default_rng(5)
    found = 0
    for _ in range(300):
        known = pool([NOISES["quiet"](rng, 4)])
        drawn = [x + math.log(1.10) for x in NOISES["quiet"](rng, 5)]
        progress = Progress.GO_ON
        for n in range(1, 6):
            progress = Rule(planned=5).progress(drawn[:n], known)
            if progress is not Progress.GO_ON:
                break
        found += progress is Progress.GAIN
    assert found >= 0.95 * 300


def test_the_smallest_gain_is_shown_four_times_in_five() -> None:
    rng = np.random.default_rng(3)
    sd, n = 0.03, 3
    calibration = [sd, -sd] * 100
    gain = math.log(smallest_gain(calibration, num_processes=n))
    known = pool([calibration])
    shown = 0
    for _ in range(TRIALS):
        found = interval((rng.normal(gain, sd, n)).tolist(), pooled_variance=known)
        shown += found is not None and found.low > 1.0
    assert 0.77 <= shown / TRIALS <= 0.83


def switched(step_s: list[float], order: tuple[int, ...], block: int) -> Run:
    num_blocks = len(step_s) // block
    return Run(
        status=Status.COMPLETE,
        arm=tuple(order[k % len(order)] for k in range(num_blocks) for _ in range(block)),
        block=tuple(k for k in range(num_blocks) for _ in range(block)),
        step_s=tuple(step_s[: num_blocks * block]),
    )


@given(seed=st.integers(0, 2**32 - 1), scale=st.floats(1e-6, 1e3))
def test_the_speed_of_the_machine_does_not_matter(seed: int, scale: float) -> None:
    steps = np.random.default_rng(seed).lognormal(0, 0.2, 400)
    plain = log_ratios_of_arms(switched(steps.tolist(), (0, 1, 1, 0), 10))
    scaled = log_ratios_of_arms(switched((steps * scale).tolist(), (0, 1, 1, 0), 10))
    assert scaled == {1: pytest.approx(plain[1], abs=1e-9)}


@given(seed=st.integers(0, 2**32 - 1))
def test_exchanging_the_sides_only_turns_the_sign(seed: int) -> None:
    steps = np.random.default_rng(seed).lognormal(0, 0.2, 400).tolist()
    run = switched(steps, (0, 1, 1, 0), 10)
    exchanged = replace(run, arm=tuple(1 - arm for arm in run.arm))
    assert log_ratios_of_arms(run)[1] == pytest.approx(-log_ratios_of_arms(exchanged)[1], abs=1e-12)
    other = switched(steps[::-1], (0,), 10)
    forth, back = log_ratio_of_runs(run, other), log_ratio_of_runs(other, run)
    assert forth is not None and back is not None
    assert forth == pytest.approx(-back, abs=1e-12)


@given(seed=st.integers(0, 2**32 - 1), speedup=st.floats(0.5, 5.0))
def test_a_known_speedup_comes_out_of_noisy_bursty_drifting_steps(seed: int, speedup: float) -> None:
    rng = np.random.default_rng(seed)
    steps = rng.lognormal(0, 0.05, 800) * np.linspace(1, 1.3, 800) + 3.0 * (np.arange(800) % 7 == 0)
    run = switched(steps.tolist(), (0, 1, 1, 0), 10)
    faster = tuple(s / speedup if arm else s for s, arm in zip(run.step_s, run.arm, strict=True))
    assert log_ratios_of_arms(Run(status=run.status, arm=run.arm, block=run.block, step_s=faster))[1] == pytest.approx(
        math.log(speedup), abs=0.05
    )


@given(ratios=st.lists(st.floats(-2, 2), min_size=1, max_size=6), variance=st.floats(0, 1), freedom=st.integers(1, 20))
def test_bounds_are_ordered_and_finite(ratios: list[float], variance: float, freedom: int) -> None:
    found = interval(ratios, pooled_variance=(variance, freedom))
    assert found is not None
    assert 0 <= found.low < found.mid < found.high < math.inf


@given(cost=st.floats(0, 1e6, allow_subnormal=False), before=st.floats(1e-6, 10), share=st.floats(0.01, 0.99))
def test_the_cost_is_paid_back_at_the_break_even_step_and_not_before(cost: float, before: float, share: float) -> None:
    step = break_even_step(cost, before, before * share)
    assert step is not None
    saved = before - before * share
    assert step * saved >= cost * (1 - 1e-9)
    assert (step - 1) * saved < cost or step == 0

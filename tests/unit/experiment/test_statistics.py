"""Step times -> ratios -> what may be said about them, on made-up processes whose truth is known."""

import math
import subprocess
import sys
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from hotlap.experiment.statistics import Progress, Rule, contrasts, fewest_for_a_gain, interval, pool, smallest_gain
from hotlap.experiment.table import MIN_ROUNDS, log_ratio_of_runs, log_ratio_within, log_ratios_of_arms
from hotlap.experiment.total import break_even_step
from hotlap.record import Run, Status

ABBA = (0, 1, 1, 0)


def switched(
    step_of: Callable[[int, int], float],
    *,
    order: Sequence[int] = ABBA,
    num_blocks: int = 40,
    block: int = 10,
    epoch_starts: tuple[int, ...] = (),
) -> Run:
    """A process whose arms take turns; `step_of(arm, index)` is the time of a step."""
    arm = [order[k % len(order)] for k in range(num_blocks) for _ in range(block)]
    return Run(
        status=Status.COMPLETE,
        arms=((),) * (max(order) + 1),
        arm=tuple(arm),
        block=tuple(k for k in range(num_blocks) for _ in range(block)),
        step_index=tuple(range(len(arm))),
        step_s=tuple(step_of(a, i) for i, a in enumerate(arm)),
        epoch_starts=epoch_starts,
    )


def turns(step_of: Callable[[int], float], *, num_blocks: int = 20, block: int = 10) -> Run:
    """One process of a trial group."""
    steps = num_blocks * block
    return Run(
        status=Status.COMPLETE,
        arm=(0,) * steps,
        block=tuple(k // block for k in range(steps)),
        step_index=tuple(range(steps)),
        step_s=tuple(step_of(i) for i in range(steps)),
    )


def test_a_faster_arm_has_a_ratio_above_zero() -> None:
    run = switched(lambda arm, _: 0.010 / (1.25 if arm else 1.0))
    assert log_ratios_of_arms(run) == {1: pytest.approx(math.log(1.25))}


def test_each_arm_is_compared_with_the_base() -> None:
    run = switched(lambda arm, _: (0.010, 0.008, 0.005)[arm], order=(0, 1, 2, 2, 1, 0))
    assert log_ratios_of_arms(run) == {1: pytest.approx(math.log(1.25)), 2: pytest.approx(math.log(2))}


def test_a_clock_that_ramps_favours_nobody() -> None:
    run = switched(lambda arm, i: (0.010 - arm * 0.001) * (1 + i / 400))
    assert log_ratios_of_arms(run)[1] == pytest.approx(math.log(10 / 9), abs=1e-3)


def test_a_machine_that_slows_down_for_a_while_favours_nobody() -> None:
    run = switched(lambda arm, i: (0.010 - arm * 0.001) * (3.0 if 95 <= i < 215 else 1.0))
    assert log_ratios_of_arms(run)[1] == pytest.approx(math.log(10 / 9), abs=0.01)


@pytest.mark.parametrize("period", [7, 9, 13, 19])
def test_the_bursts_of_a_loader_are_part_of_the_mean(period: int) -> None:
    def step_of(arm: int, i: int) -> float:
        return 0.010 + (0.090 if arm == 0 and i % period == 0 else 0.0)

    truth = math.log((0.010 * period + 0.090) / (0.010 * period))
    run = switched(step_of, num_blocks=160)
    assert log_ratios_of_arms(run)[1] == pytest.approx(truth, rel=0.06)


def test_bursts_of_both_arms_leave_two_equal_things_equal() -> None:
    run = switched(lambda _, i: 0.001 + (0.030 if i % 11 == 0 else 0.0), num_blocks=44)
    assert abs(log_ratios_of_arms(run)[1]) < 0.02


def test_one_pause_of_the_operating_system_does_not_decide() -> None:
    run = switched(lambda _, i: 1.0 if i == 55 else 0.001)
    assert log_ratios_of_arms(run)[1] == pytest.approx(0.0, abs=1e-9)


def test_the_step_that_switches_and_the_start_of_an_epoch_do_not_count() -> None:
    epochs = (33, 177, 288)
    run = switched(lambda _, i: 9.0 if i % 10 == 0 or i in epochs else 0.002, epoch_starts=epochs)
    assert log_ratios_of_arms(run)[1] == pytest.approx(0.0, abs=1e-12)


def test_of_a_long_block_the_second_step_does_not_count_either() -> None:
    run = switched(lambda arm, i: 9.0 if i % 10 < 1 + arm else 0.002)
    assert log_ratios_of_arms(run)[1] == pytest.approx(0.0, abs=1e-12)
    short = switched(lambda _, i: 0.002 + 0.002 * (i % 3), block=3)
    assert log_ratios_of_arms(short)[1] == pytest.approx(0.0, abs=1e-12), "two of three steps are left"


def test_an_arm_with_too_few_rounds_says_nothing() -> None:
    assert log_ratios_of_arms(switched(lambda *_: 0.01, num_blocks=2 * MIN_ROUNDS - 1)) == {}
    assert log_ratios_of_arms(switched(lambda *_: 0.01, num_blocks=2 * MIN_ROUNDS)) == {1: 0.0}
    assert log_ratios_of_arms(switched(lambda *_: 0.01, block=1)) == {}
    assert log_ratios_of_arms(Run(status=Status.CRASHED)) == {}


def test_processes_that_took_turns_are_compared_turn_by_turn() -> None:
    def ramp(i: int) -> float:
        return 1 + i / 100

    base, other = turns(lambda i: 0.010 * ramp(i)), turns(lambda i: 0.008 * ramp(i), num_blocks=15)
    assert log_ratio_of_runs(base, other) == pytest.approx(math.log(1.25), abs=1e-6)
    assert log_ratio_of_runs(base, turns(lambda _: 0.01, num_blocks=MIN_ROUNDS - 1)) is None


def test_a_process_compared_with_itself_varies_as_a_trial_of_its_rounds_would() -> None:
    rng, num_rounds = np.random.default_rng(3), 8

    def noisy(num_blocks: int) -> list[float]:
        return [level * 0.01 for level in rng.lognormal(0, 0.1, num_blocks) for _ in range(10)]

    itself, trials = [], []
    for _ in range(400):
        step_s = noisy(num_rounds)
        itself.append(log_ratio_within(turns(step_s.__getitem__, num_blocks=num_rounds), num_rounds=num_rounds) or 0.0)
        both_s = noisy(2 * num_rounds)
        trials.append(log_ratios_of_arms(switched(lambda _, i: both_s[i], num_blocks=2 * num_rounds))[1])  # noqa: B023
    assert np.std(itself) == pytest.approx(np.std(trials), rel=0.15)


def test_the_interval_is_that_of_student() -> None:
    ratios = [0.09, 0.11, 0.13, 0.07]
    found = interval(ratios)
    half = 3.182446 * np.std(ratios, ddof=1) / 2
    assert found is not None
    assert math.log(found.low) == pytest.approx(0.10 - half, rel=1e-5)
    assert found.mid == pytest.approx(math.exp(0.10))
    assert math.log(found.high) == pytest.approx(0.10 + half, rel=1e-5)


def test_nothing_is_said_from_nothing_or_from_one_process_alone() -> None:
    assert interval([]) is None
    assert interval([], pooled_variance=(1e-4, 6)) is None
    assert interval([0.3]) is None
    assert interval([0.3], pooled_variance=(1e-4, 6)) is not None


def test_equal_numbers_are_no_certainty() -> None:
    found = interval([0.1, 0.1])
    assert found is not None
    assert found.low < math.exp(0.1) * 0.97


def test_the_pool_narrows_what_two_processes_say() -> None:
    alone, pooled = interval([0.10, 0.12]), interval([0.10, 0.12], pooled_variance=(2e-4, 6))
    assert alone is not None and pooled is not None
    assert alone.low < 1.0 < pooled.low


def test_a_comparison_that_varies_far_more_than_the_pool_stands_alone() -> None:
    assert interval([0.0, 0.6], pooled_variance=(1e-4, 6)) == interval([0.0, 0.6])


def test_groups_are_pooled_around_their_own_means() -> None:
    found = pool([[1.0, 3.0], [10.0, 10.0, 13.0], [99.0]])
    assert found is not None
    assert found == pytest.approx(((2 + 6) / 3, 3))
    assert pool([]) is None
    assert pool([[1.0], []]) is None


def test_more_processes_see_smaller_gains() -> None:
    ratios = [0.03, -0.02, 0.01]
    gains = [smallest_gain(ratios, num_processes=n) for n in (1, 2, 4, 8)]
    assert gains == sorted(gains, reverse=True)
    assert gains[-1] > 1.01


def test_an_offset_in_two_equal_things_counts_as_noise() -> None:
    assert smallest_gain([0.05, 0.05, 0.05], num_processes=3) > 1.08


def test_the_smallest_gain_needs_a_measurement() -> None:
    with pytest.raises(ValueError, match="A/A"):
        smallest_gain([], num_processes=3)


def test_a_large_gain_stops_after_two_processes() -> None:
    assert Rule(planned=5).progress([1.2], (1e-4, 4)) is Progress.GO_ON
    assert Rule(planned=5).progress([1.2, 1.19], (1e-4, 4)) is Progress.GAIN


def test_no_gain_is_seen_early_and_a_small_one_is_not_guessed() -> None:
    quiet = (1e-4, 6)
    assert Rule(planned=5).progress([0.0, 0.001], quiet) is Progress.NO_GAIN
    assert Rule(planned=5).progress([0.03, 0.02], quiet) is Progress.GO_ON
    assert Rule(planned=5).progress([0.03, 0.02, 0.025, 0.02, 0.03], quiet) is Progress.GAIN
    assert Rule(planned=5).progress([0.05, 0.0, 0.025, 0.02, 0.03], (1e-3, 6)) is Progress.UNSHOWN
    assert Rule(planned=5).progress([0.014] * 5, (1e-5, 6)) is not Progress.GAIN, (
        "it is sure, and less than what counts"
    )


def test_what_could_hardly_become_a_gain_ends_early_and_what_could_does_not() -> None:
    noisy = (0.02, 4)
    assert Rule(planned=5).progress([-0.09, -0.06], noisy) is Progress.UNSHOWN
    assert Rule(planned=5, patient=True).progress([-0.09, -0.06], noisy) is Progress.GO_ON
    assert Rule(planned=5).progress([-0.09], noisy) is Progress.GO_ON, "one may be chance"
    assert Rule(planned=5).progress([0.12, 0.17], noisy) is Progress.GO_ON


def test_ending_early_hardly_ever_ends_what_would_have_become_a_gain() -> None:
    rng = np.random.default_rng(7)
    sd, ended, could = 0.02, 0, 0
    for _ in range(2000):
        known = pool([rng.normal(0, sd, 5).tolist()])
        drawn = rng.normal(math.log(1.06), sd, 5).tolist()
        states = [Rule(planned=5).progress(drawn[:n], known) for n in range(1, 6)]
        if Progress.GAIN in states:
            could += 1
            ended += Progress.UNSHOWN in states[: states.index(Progress.GAIN)]
    assert could > 500
    assert ended < 0.05 * could


def test_two_processes_without_a_pool_are_too_few_witnesses() -> None:
    assert Rule(planned=5).progress([5.0, 5.0], None) is Progress.GO_ON
    assert Rule(planned=3).progress([5.0] * 3, (1e-4, 1)) is Progress.UNSHOWN
    assert Rule(planned=5).progress([5.0] * 4, None) is Progress.GAIN


def test_nothing_measured_is_nothing_known() -> None:
    assert Rule(planned=3).progress([], None) is Progress.GO_ON
    assert Rule(planned=0).progress([], (1e-4, 3)) is Progress.UNSHOWN


def test_a_one_time_cost_pays_back_at_a_step_or_never() -> None:
    assert break_even_step(3.0, 0.010, 0.004) == 500
    assert break_even_step(0.0, 0.010, 0.004) == 0
    assert break_even_step(3.0, 0.010, 0.010) is None
    assert break_even_step(3.0, 0.010, 0.011) is None
    assert break_even_step(3.0, math.nan, 0.004) is None


def test_importing_it_loads_no_scipy() -> None:
    """Half a second, that a command which compares nothing need not wait."""
    code = "import sys, hotlap.experiment, hotlap.gate; print({'scipy', 'torch'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


# Contrasts of equal things


def test_contrasts_of_equal_things_are_as_many_pairs_that_know_nothing_of_each_other() -> None:
    """Of three processes two, each with the variance of a pair's log-ratio, and uncorrelated."""
    rng = np.random.default_rng(0)
    found = [contrasts([float(x) for x in rng.normal(size=3)]) for _ in range(4000)]
    products = {(i, j): sum(one[i] * one[j] for one in found) / len(found) for i in (0, 1) for j in (0, 1)}
    assert products[0, 0] == pytest.approx(2.0, rel=0.1)
    assert products[1, 1] == pytest.approx(2.0, rel=0.1)
    assert products[0, 1] == pytest.approx(0.0, abs=0.1)


def test_the_contrast_of_two_is_their_log_ratio_and_of_one_there_is_none() -> None:
    assert contrasts([0.0, 0.25]) == [pytest.approx(-0.25)]
    assert contrasts([0.0]) == []
    assert contrasts([]) == []


@pytest.mark.parametrize("freedom", range(6))
def test_an_obvious_gain_is_called_one_after_the_fewest_processes_and_not_before(freedom: int) -> None:
    known = (0.01**2, freedom) if freedom else None
    fewest = fewest_for_a_gain(known)
    ratios = [math.log(180.0), math.log(179.0), math.log(181.0), math.log(180.0)]
    found = [Rule(planned=fewest).progress(ratios[:n], known) for n in range(1, fewest + 1)]
    assert found == [Progress.GO_ON] * (fewest - 1) + [Progress.GAIN]

"""What the total of whole trainings promises, by simulation: whole trainings weighed with what steps tell are nearer to
the truth than whole trainings alone, and the interval holds it."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from hotlap.experiment import statistics
from hotlap.experiment.total import Length, total_speedup, whole_speedup
from hotlap.record import Run, Status

TRUE = math.log(1.5)
NUM_STEPS = 1000
STUDIES = 250
NOISE = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "noise-cpu-2core.json"

Hours = Callable[[np.random.Generator, int], np.ndarray]
"""(generator, N) -> (N, 2): logarithms of what two processes take in each of N hours, one after the other."""


def simulated(process_sd: float, hour_sd: float) -> Hours:
    """Processes differ, and hours, which are like the ones before."""

    def draw(rng: np.random.Generator, number: int) -> np.ndarray:
        hours = [rng.normal(0, hour_sd)]
        for _ in range(number - 1):
            hours.append(0.7 * hours[-1] + rng.normal(0, hour_sd * math.sqrt(1 - 0.7**2)))
        return np.array(hours)[:, None] + rng.normal(0, process_sd, (number, 2))

    return draw


def recorded() -> Hours:
    """Trial groups of four equal processes on a busy machine, from one of them on."""
    trial_groups = json.loads(NOISE.read_text())["heats"]
    levels = np.log([[np.mean(turns) for turns in trial_group] for trial_group in trial_groups])
    levels -= levels.mean()

    def draw(rng: np.random.Generator, number: int) -> np.ndarray:
        places = (rng.integers(len(levels)) + np.arange(number)) % len(levels)
        return np.array([rng.permutation(levels[place])[:2] for place in places])

    return draw


def training(log_step: float) -> Run:
    """A process that was timed for some steps."""
    step_s = 0.01 * math.exp(log_step)
    return Run(status=Status.COMPLETE, setup_s=step_s, first_steps_s=(step_s,), step_s=(step_s,) * 4)


def studies(hours: Hours, *, num_trial_groups: int, num_whole: int, off_sd: float) -> dict[str, np.ndarray]:
    """(studies, 3) logarithms of low, mid and high, less the truth: of whole trainings alone, and as they are told.
    `off_sd`: by which the steps are off the truth, in all trial groups of a study alike."""
    rng, found = np.random.default_rng(5), []
    for _ in range(STUDIES):
        took, off = hours(rng, num_trial_groups + 2 * num_whole), rng.normal(0, off_sd)
        pairs = [(training(base), training(other - TRUE - off)) for base, other in took[:num_trial_groups]]
        # Each alone in its hour, the first and the second one.
        later = took[num_trial_groups:].reshape(num_whole, 2, 2)[:, :, 0]
        base_first = [(one, two) if k % 2 == 0 else (two, one) for k, (one, two) in enumerate(later)]
        whole_s = [(10 * math.exp(base), 10 * math.exp(other - TRUE)) for base, other in base_first]
        by_steps = total_speedup(pairs, Length(NUM_STEPS, None), pooled=None)
        told = whole_speedup(whole_s, pairs, by_steps, Length(NUM_STEPS, None))
        side_by_side = statistics.pool([[math.log(base.step_s[0] / other.step_s[0]) for base, other in pairs]])
        alone = statistics.interval([math.log(a / b) for a, b in whole_s], pooled_variance=side_by_side)
        assert told is not None and alone is not None
        found.append([[one.low, one.mid, one.high] for one in (told, alone)])
    told, alone = np.moveaxis(np.log(found) - TRUE, 1, 0)
    return {"told": told, "alone": alone}


def error(found: np.ndarray) -> float:
    return float(np.sqrt(np.mean(found[:, 1] ** 2)))


def coverage(found: np.ndarray) -> float:
    return float(np.mean((found[:, 0] <= 0) & (found[:, 2] >= 0)))


@pytest.mark.parametrize("off_sd", [0.0, 0.1])
@pytest.mark.parametrize(("num_trial_groups", "num_whole"), [(4, 1), (4, 2), (4, 4)])
@pytest.mark.parametrize(
    ("name", "hours", "part"),
    [
        ("recorded", recorded(), 0.7),
        ("disturbed", simulated(0.03, 0.15), 1.0),
        ("quiet", simulated(0.015, 0.005), 1.05),
    ],
)
def test_the_middle_is_nearer_to_the_truth_and_the_interval_holds_it(
    name: str, hours: Hours, part: float, num_trial_groups: int, num_whole: int, off_sd: float
) -> None:
    found = studies(hours, num_trial_groups=num_trial_groups, num_whole=num_whole, off_sd=off_sd)
    print(name, *(f"{of}: off by {error(one):.3f}, holds {coverage(one):.0%};" for of, one in found.items()))
    assert coverage(found["told"]) >= 0.9
    assert error(found["told"]) <= part * error(found["alone"])


@pytest.mark.parametrize("hours", [recorded(), simulated(0.03, 0.15)])
def test_steps_that_are_far_off_do_not_spoil_what_the_clock_tells(hours: Hours) -> None:
    found = studies(hours, num_trial_groups=4, num_whole=4, off_sd=0.6)
    assert error(found["told"]) <= 1.5 * error(found["alone"])

"""The script compared with itself, here and now: what is the smallest gain that could be shown?"""

import math
from collections.abc import Sequence

from hotlap.experiment import Arm, Design, Executor, statistics
from hotlap.experiment.statistics import FEWEST_SHOWN
from hotlap.experiment.table import log_ratio_within
from hotlap.record import Noise
from hotlap.search import StudyLog
from hotlap.tune.diagnosis import ceilings, has_workers
from hotlap.units import factor

# Log-ratios of equal things (A/A) before anything is tried: they give the noise, and the variance that later trial
# groups share. With four a trial whose outcome is clear needs two trial groups only (statistics.Rule). Three equal
# processes in a trial group give two of them that are independent (statistics.contrasts), for the price of three starts
# instead of four.
_RATIOS = 4
EQUAL = 3

# Most levers bring less than this, each alone: noise that hides it makes a study say little.
_MUCH_NOISE = 1.25

# Knowing the noise must leave this part of the budget for trials.
_LEAVE = 0.6


def calibrate(log: StudyLog, executor: Executor) -> None:
    """Know the noise, and take more time where it hides most gains."""
    if not log.study.noise:
        _compare_equal(log, executor)
    noise = next((one for one in log.study.noise if one.scope == "process"), None)
    if noise is None or not noise.log_ratios or statistics.smallest_gain(noise.log_ratios) <= _MUCH_NOISE:
        return
    log.extend()
    hidden = "most gains" if noise.smallest_gain is None else f"gains below {factor(noise.smallest_gain)}"
    log.warn(
        f"Runs of the unchanged script differ so much here that {hidden} between processes are hard to show. Most "
        "often other programs use the machine: run it again when they have ended, or raise --budget."
    )


def _compare_equal(log: StudyLog, executor: Executor) -> None:
    """Equal things compared (A/A), and beside them the script with its input for free where that tells something."""
    run = log.study.baseline[0]
    processes: list[float] = []
    blocks: list[float] = []
    free: list[float] = []
    # On many nodes pairs are made at the same time, and sooner than trial groups of three.
    num_equal = EQUAL if executor.sizes.together > EQUAL and executor.nodes < _RATIOS else 2
    # Where nothing loads beside the training, the phases bound what free batches bring.
    with_free = has_workers(run)
    num_trial_groups = max(math.ceil(_RATIOS / (num_equal - 1)), FEWEST_SHOWN if with_free else 0)
    arms = (Arm(),) * num_equal + (Arm(free_input=True),) * with_free
    num_made, num_rounds = 0, executor.sizes.steps // executor.sizes.block
    while num_made < num_trial_groups:
        keep_s = _LEAVE * (log.budget.total_s - log.budget.later_s)
        if num_made and not log.budget.affords(executor.estimate_s(len(arms)), keep_s=keep_s):
            break
        count = min(executor.nodes, num_trial_groups - num_made)
        num_made += count
        log.doing(f"comparing the script with itself, to know the noise ({num_made} of {num_trial_groups})")
        for trial_group in executor.trial_groups(*[Design(arms=arms)] * count):
            equal, freed = trial_group.outcomes[: num_equal - 1], trial_group.outcomes[num_equal - 1 :]
            processes += statistics.contrasts([0.0, *(ratio for ratio in equal if isinstance(ratio, float))])
            free += [ratio for ratio in freed if isinstance(ratio, float)]
            blocks += [
                ratio
                for run in trial_group.runs[:num_equal]
                if (ratio := log_ratio_within(run, num_rounds=num_rounds)) is not None
            ]
    log.change("ceilings", ceilings=ceilings(run, free=free))
    noise = (noise_of("process", processes), noise_of("step", blocks))
    log.change("noise", noise=tuple(filter(None, noise)))


def noise_of(scope: str, log_ratios: Sequence[float]) -> Noise | None:
    """What comparing equal things came to; None where nothing was compared."""
    if not log_ratios:
        return None
    shown = len(log_ratios) >= FEWEST_SHOWN
    return Noise(
        scope=scope,
        speedup=statistics.interval(log_ratios) if shown else None,
        smallest_gain=statistics.smallest_gain(log_ratios) if shown else None,
        log_ratios=tuple(log_ratios),
    )

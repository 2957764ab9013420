"""STATISTICAL: other numbers, equal training. An equivalence test over seeds, not a failure to see a difference.

Of 240 cases of 20 injected faults losses and sizes of updates alone show 87% with five seeds, 78% with three
(tests/unit/gate/trainer.py). What is missed moves the loss by a hundredth or two of what is learnt in the window, or by
far less: that is left to what holds for all contracts.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hotlap.gate import draws, prints, rounding
from hotlap.gate.evidence import Evidence, Pair, Ruling, extent, harmed, loss_matrix, spent, undecided, unharmed
from hotlap.gate.gradients import same_first_draws
from hotlap.gate.step_fields import BATCH
from hotlap.student import quantile

Losses = NDArray[np.float64]

# With two seeds the 90% interval of a mean reaches 4.5 standard deviations to each side: nothing fits a margin then.
MIN_SEEDS = 3
# Equal: the 90% interval of the difference lies within this margin. Whoever starts a training accepts what the seed
# does to it, so one standard deviation over seeds is nothing that could be noticed; where seeds hardly matter, it is a
# twentieth of what was learnt in the window.
SEED_MARGIN = 1.0
PROGRESS_MARGIN = 0.05
# Harm: the 95% interval lies beyond this, inside the margin or not. Runs that share their seeds can differ so steadily
# that chance is ruled out, long before the difference is large; below a hundredth of what was learnt in the window it
# is still nobody's concern (the rounding of bfloat16 stays below a thousandth in tests/unit/gate/trainer.py).
TRIFLE = 0.01
# Of a first loss, part that is nobody's concern, and chance of a false alarm: rounding to bfloat16 has either sign.
FIRST_TRIFLE, FIRST_TAIL = 5e-4, 0.005
EQUAL_TAIL, HARM_TAIL = 0.05, 0.025
# (With what `spent` leaves to a later look, both looks together call a difference as large as the spread equal in 4.7%
# to 5.9% of cases, as one does (4.4% to 5.3%); with the same tail 7% to 8.5%: tests/property/test_gate.py.)
# The loss falls "beyond its noise" if the fall is twice its standard error.
MIN_FALL = 2.0


class Gap:
    """Difference of one summary of the loss, with the lever minus the baseline, and what may be said of it.

    `base`, `lever`: that summary of each run, seed by seed. `fall`: how far the loss falls in the window.
    """

    def __init__(self, name: str, base: Losses, lever: Losses, *, fall: float) -> None:
        difference = lever - base
        self._name = name
        self._mean = float(difference.mean())
        self._error = float(difference.std(ddof=1)) / math.sqrt(len(difference))
        self._freedom = len(base) - 1
        self._tail, self._harm_tail = (spent(tail, len(base)) for tail in (EQUAL_TAIL, HARM_TAIL))
        self._half = quantile(self._freedom, 1 - self._tail) * self._error
        # What is allowed: as much as the spread over the baseline's seeds, and where they hardly matter that much.
        self._spread = SEED_MARGIN * float(base.std(ddof=1))
        self._progress = PROGRESS_MARGIN * fall
        self._trifle = TRIFLE * fall if fall else self._spread

    def is_equal(self) -> bool:
        """The interval lies within the margin."""
        reach = abs(self._mean) + self._half
        return reach < self._progress or self._within_spread(reach)

    def _within_spread(self, reach: float) -> bool:
        """Equivalence scaled by a spread that few seeds know badly: the upper bound of mean^2 - (margin of the
        spread)^2 is below 0, the errors of both taken together (Howe's approximation, as in Hyslop, Hsuan and Holder,
        Statistics in Medicine 19, 2885, 2000)."""
        from scipy.special import chdtri

        allowed = self._spread**2
        least = allowed * self._freedom / float(chdtri(self._freedom, self._tail))
        return self._mean**2 - allowed + math.hypot(reach**2 - self._mean**2, allowed - least) < 0

    def is_harm(self) -> bool:
        """The interval lies beyond what is a trifle."""
        return abs(self._mean) - quantile(self._freedom, 1 - self._harm_tail) * self._error > self._trifle

    def text(self) -> str:
        """The numbers, as a part of a sentence; the spread over seeds is taken as known in it."""
        allowed = max(self._spread, self._progress)
        return f"{self._name} {self._mean:+.2g} +- {self._half:.2g} (allowed: {allowed:.2g})"


def judge(evidence: Evidence, pairs: Sequence[Pair]) -> Ruling:
    """Compare two summaries of the loss over seeds: its mean over the window, and over the last third."""
    if len(pairs) < MIN_SEEDS:
        return undecided(
            f"It takes {MIN_SEEDS} seeds, each on both sides, to tell harm from chance; there are {len(pairs)}."
        )
    lever_runs = [pair.lever for pair in pairs]
    steps, losses = loss_matrix([*(pair.base for pair in pairs), *lever_runs])
    base, lever = losses[: len(pairs)], losses[len(pairs) :]
    fall = _fall(base)
    gaps = [
        Gap(name, base[:, part].mean(axis=1), lever[:, part].mean(axis=1), fall=fall)
        for name, part in (
            ("loss over the window", slice(None)),
            ("loss over its last third", slice(-(len(steps) // 3), None)),
        )
    ]
    told = "; ".join(gap.text() for gap in gaps)
    if any(gap.is_harm() for gap in gaps):
        return harmed(f"Training differs by more than chance and more than a trifle: {told}.", by_chance=True)
    ruling = _other_first_loss(pairs) or rounding.jump(evidence, pairs) or prints.beyond_seeds(pairs)
    if ruling:
        return ruling
    if not all(gap.is_equal() for gap in gaps):
        return undecided(f"{len(pairs)} seeds do not settle whether training is equal: {told}.", by_chance=True)
    unknown = draws.fewer_numbers(pairs)
    if fall == 0.0 and not _same_batches(pairs):
        unknown = "In the baseline the loss does not fall beyond its noise in the window, so equal losses prove little."
    if unknown:
        return undecided(unknown)
    how = f"{len(pairs)} seeds, each on both sides, {extent(len(steps), lever_runs)}"
    flat = " The loss does not fall in the window; this rests on equal samples and updates." if fall == 0.0 else ""
    return unharmed(f"Equal within the spread over seeds ({how}): {told}.{flat}")


def _other_first_loss(pairs: Sequence[Pair]) -> Ruling | None:
    """HARMED where the same weights, batch and draws steadily make another loss: a term of it is lost, say. Where a
    dropout's masks fall on other samples, the loss is another one by chance, and steadily none."""
    gaps = np.array([pair.first_loss_gap() for pair in same_first_draws(pairs)])
    if len(gaps) < MIN_SEEDS or np.isnan(gaps).any():
        return None
    mean, error = float(gaps.mean()), float(gaps.std(ddof=1)) / math.sqrt(len(gaps))
    if abs(mean) - quantile(len(gaps) - 1, 1 - spent(FIRST_TAIL, len(gaps))) * error <= FIRST_TRIFLE:
        return None
    return harmed(
        f"The first loss is {mean:+.2%} from that of the baseline ({len(gaps)} seeds), with the same batch and random "
        "numbers.",
        by_chance=True,
    )


def _fall(base: Losses) -> float:
    """How far the loss falls from the first tenth of the window to its last third; 0 if not beyond its noise."""
    num_steps = base.shape[1]
    first, last = base[:, : max(2, num_steps // 10)], base[:, -(num_steps // 3) :]
    noise = last.var(axis=1, ddof=1).mean() * (1 / first.size + 1 / last.size)
    fall = float(first.mean() - last.mean())
    return fall if fall > MIN_FALL * math.sqrt(noise) else 0.0


def _same_batches(pairs: Sequence[Pair]) -> bool:
    """True if lever and base saw the same bytes in each common step."""
    known = all(None not in (run.batch_digest or (None,)) for pair in pairs for run in (pair.base, pair.lever))
    return known and not any(BATCH.first(pair.base, pair.lever) for pair in pairs)

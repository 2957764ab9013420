"""Validation between steps -> time and samples that are set aside from the step in which it happens."""

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

# What happens in more than this part of the steps belongs to training: a target network, a teacher, the frozen half of
# a GAN run their forward passes without gradients in each step, while a validation comes once in many.
_TRAINING_SHARE = 1 / 3

# Where each step has such forward passes, a validation shows by batches that are only looked at, or, of data that no
# loader gave, by many more passes: so many times as many as usual.
_FACTOR = 3


class Stretch(NamedTuple):
    """What lies between the first and the last forward pass without training in one step."""

    spent: list[float]
    """Seconds by phase."""
    num_looks: int
    """Forward passes without training."""
    num_samples: int
    """Samples that were drawn and only looked at."""


class Aside:
    """Of one step: from the first forward pass without training to the last, batches included.

    A stretch begins where the loader of the first such pass was started, or where its batch was drawn if the loader was
    started in an earlier step or that batch is trained on as well; it ends where the next thing of training begins. All
    are told of as (begin, end), seconds of the clock, in the order of their ends.
    """

    def __init__(self) -> None:
        self._drawn_at: float | None = None
        # The first loader that was started since a forward pass that trains.
        self._started_at: float | None = None
        # While the batch of the first look is the last one that was drawn: when that was.
        self._first_drawn_at: float | None = None
        # Since the last look another loader was started, for training unless a look follows: the stretch ended there.
        self._left = False
        self.begin: float | None = None
        """None without a stretch; so is `end`."""
        self.end: float | None = None
        self.num_looks = self.num_samples = 0
        # The last batch: its samples, and what was done with it.
        self._drawn = 0
        self._looked = self._trained = False

    def draws(self, begin: float, end: float) -> None:
        """A batch was drawn, or a loader started or ended."""
        self._drawn_at, self._first_drawn_at = begin, None
        if self.begin is not None:
            if not self._left:
                self.end = begin
            if self._looked and not self._trained:
                self.num_samples += self._drawn
        self._drawn = 0
        self._looked = self._trained = False

    def starts(self) -> None:
        """What `draws` told last was the start of a loader."""
        self._left = self.begin is not None
        if self._started_at is None:
            self._started_at = self._drawn_at

    def drew(self, num_samples: int) -> None:
        """The last batch had so many samples."""
        self._drawn = num_samples

    def looks(self, begin: float, end: float) -> None:
        """A forward pass that does not train."""
        self.num_looks += 1
        self._looked = True
        if self.begin is None:
            self._first_drawn_at = begin if self._drawn_at is None else self._drawn_at
            self.begin = self._first_drawn_at if self._started_at is None else self._started_at
        self.end, self._drawn_at, self._left = end, None, False

    def trains(self, begin: float, end: float) -> None:
        """A forward pass that trains. (Where a batch was drawn for it, the stretch ended there.)"""
        self._trained, self._started_at = True, None
        if self._first_drawn_at is not None:
            self.begin = self._first_drawn_at
        if self.begin is not None and self._drawn_at is None:
            self.end = begin


def validations(stretches: Sequence[Stretch | None]) -> list[Stretch | None]:
    """The stretch of each step -> the part of it that is a validation, and no part of training."""
    usual = median(stretch.num_looks if stretch is not None else 0 for stretch in stretches) if stretches else 0
    least = max(1, _FACTOR * usual)
    found = [one if one is not None and (one.num_looks >= least or one.num_samples) else None for one in stretches]
    if sum(stretch is not None for stretch in found) > _TRAINING_SHARE * len(stretches):
        return [None] * len(stretches)
    if not usual:
        return found
    # What each step has is training, in the steps with a validation as well.
    plain = [stretch for stretch, rare in zip(stretches, found, strict=True) if stretch is not None and rare is None]
    typical = [median(parts) for parts in zip(*(stretch.spent for stretch in plain), strict=True)]
    return [
        rare._replace(spent=[max(0.0, a - b) for a, b in zip(rare.spent, typical, strict=True)]) if rare else None
        for rare in found
    ]

"""Validation between steps -> time that is set aside from the step in which it happens."""

from hotlap.probe.clock import Clock

# What happens in more than this part of the steps belongs to training: a target network, a teacher, the frozen half of
# a GAN run their forward passes without gradients in each step, while a validation comes once in many.
_TRAINING_SHARE = 1 / 3


class Aside:
    """Between two step boundaries: from the first forward pass without training to the last, batches included.

    A stretch begins where the batch of the first such pass was drawn, and ends where the next thing of training begins.
    """

    __slots__ = ("_begin", "_clock", "_drawn_at", "_end")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._drawn_at: list[float] | None = None
        self._begin: list[float] | None = None
        self._end: list[float] | None = None

    def draws(self) -> None:
        """A batch is about to be drawn, or a loader to be started or to end."""
        now = self._clock.totals()
        self._drawn_at = now
        if self._begin is not None:
            self._end = now

    def looks(self) -> None:
        """A forward pass that does not train begins."""
        if self._begin is None:
            self._begin = self._drawn_at or self._clock.totals()

    def looked(self) -> None:
        """It is over."""
        self._end = self._clock.totals()
        self._drawn_at = None

    def trains(self) -> None:
        """A forward pass that trains begins. (Where a batch was drawn for it, the stretch ended there.)"""
        if self._begin is not None and self._drawn_at is None:
            self._end = self._clock.totals()

    def take(self) -> list[float] | None:
        """Seconds by phase of the stretch in the step that is over; None without one."""
        begin, end = self._begin, self._end
        self._begin = self._end = self._drawn_at = None
        if begin is None or end is None:
            return None
        return [b - a for a, b in zip(begin, end, strict=True)]


def is_rare(num_stretches: int, num_steps: int) -> bool:
    """So few steps have a stretch that it is no part of training."""
    return 0 < num_stretches <= _TRAINING_SHARE * num_steps

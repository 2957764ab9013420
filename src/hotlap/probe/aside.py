"""Validation between steps -> the stretch that is set aside from the step in which it happens."""

# What happens in more than this part of the steps belongs to training: a target network, a teacher, the frozen half of
# a GAN run their forward passes without gradients in each step, while a validation comes once in many.
_TRAINING_SHARE = 1 / 3


class Aside:
    """Between two step boundaries: from the first forward pass without training to the last, batches included.

    A stretch begins where the batch of the first such pass was drawn, and ends where the next thing of training begins.
    Times are seconds of the clock, told in order.
    """

    __slots__ = ("_begin", "_drawn_at", "_end")

    def __init__(self) -> None:
        self._drawn_at: float | None = None
        self._begin: float | None = None
        self._end: float | None = None

    def draws(self, begin: float) -> None:
        """A batch was drawn, or a loader started or ended, from `begin` on."""
        self._drawn_at = begin
        if self._begin is not None:
            self._end = begin

    def looks(self, begin: float, end: float) -> None:
        """A forward pass that does not train."""
        if self._begin is None:
            self._begin = begin if self._drawn_at is None else self._drawn_at
        self._end, self._drawn_at = end, None

    def trains(self, begin: float) -> None:
        """A forward pass that trains begins. (Where a batch was drawn for it, the stretch ended there.)"""
        if self._begin is not None and self._drawn_at is None:
            self._end = begin

    def take(self) -> tuple[float, float] | None:
        """Begin and end of the stretch in the step that is over; None without one."""
        begin, end = self._begin, self._end
        self._begin = self._end = self._drawn_at = None
        return None if begin is None or end is None else (begin, end)


def is_rare(num_stretches: int, num_steps: int) -> bool:
    """So few steps have a stretch that it is no part of training."""
    return 0 < num_stretches <= _TRAINING_SHARE * num_steps

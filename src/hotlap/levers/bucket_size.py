"""bucket-size: how many gradients DistributedDataParallel sends at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self, final

from hotlap.levers.data_parallel import argument, exchange_s, megabytes, why_none
from hotlap.levers.lever import Lever, Numerics, Scope, cannot_write
from hotlap.record import Ceiling, Machine, Run
from hotlap.source import Edit

_SIZES = (1, 5, 100, 400)
"""In MB."""
_DEFAULT = 25
"""torch's own; the first bucket to leave is of 1."""

# More buckets than that are latency alone.
_MOST_BUCKETS = 100


@final
@dataclass(frozen=True, slots=True)
class BucketSize(Lever):
    """Sends gradients in buckets of another size than 25 MB: `bucket_cap_mb=...`.

    What: the argument of `DistributedDataParallel`.
    Why: a bucket leaves when its last gradient is there. Small ones leave early, and hide behind the rest of the
    backward pass; each costs the latency of an exchange (Li and others, "PyTorch Distributed", VLDB 2020). Which size
    is best depends on the link and on the model, and is not known before it is tried.
    When it hurts: sums over more than two ranks are made in another order, so last bits differ. A size that is good on
    one link need not be so on another: what a trial on one machine finds holds there.
    """

    name: ClassVar[str] = "bucket-size"
    scope: ClassVar[Scope] = Scope.PROCESS
    numerics: ClassVar[Numerics] = Numerics.ROUNDING
    across_ranks: ClassVar[bool] = True

    megabytes: int = _SIZES[1]

    @classmethod
    def candidates(cls, run: Run, machine: Machine) -> Sequence[Self]:
        """Sizes that part the gradients otherwise than torch's own; of those that hold them all, the smallest."""
        total = megabytes(run)
        several = [size for size in _SIZES if total / _MOST_BUCKETS <= size < total]
        whole = [size for size in _SIZES if size >= total > _DEFAULT][:1]
        return tuple(cls(megabytes=size) for size in (*several, *whole)) or (cls(),)

    def rejects(self, run: Run, machine: Machine) -> str | None:
        """Is there such a model, and are its gradients more than the first bucket?"""
        reason = why_none(run)
        if reason is None and megabytes(run) <= _SIZES[0]:
            reason = "All gradients leave in one bucket, of one megabyte at most."
        return reason or cannot_write(self, run, "The script makes no DistributedDataParallel, or chooses this itself.")

    def saves_at_most_s(self, run: Run, ceilings: Sequence[Ceiling]) -> float:
        """What is waited for, and the backward pass that it hides behind."""
        return exchange_s(run)

    def edits(self, run: Run) -> Sequence[Edit]:
        """One argument more."""
        return argument(run, self.name, "bucket_cap_mb", str(self.megabytes))

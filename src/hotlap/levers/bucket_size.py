"""bucket-size: how many gradients DistributedDataParallel sends at once."""

from collections.abc import Mapping, Sequence
from typing import Self

from hotlap.levers.data_parallel import EXCHANGE, WrapperArgument, megabytes
from hotlap.levers.lever import Numerics
from hotlap.record import Machine, Run, Scalar

_SIZES = (1, 5, 100, 400)
"""In MB."""
_DEFAULT = 25
"""torch's own; the first bucket to leave is of 1."""

# More buckets than that are latency alone.
_MOST_BUCKETS = 100


class BucketSize(WrapperArgument):
    """Sends gradients in buckets of another size than 25 MB: `bucket_cap_mb=...`.

    What: the argument of `DistributedDataParallel`.
    Why: a bucket leaves when its last gradient is there. Small ones leave early, and hide behind the rest of the
    backward pass; each costs the latency of an exchange (Li and others, "PyTorch Distributed", VLDB 2020). Which size
    is best depends on the link and on the model, and is not known before it is tried.
    When it hurts: sums over more than two ranks are made in another order, so last bits differ. A size that is good on
    one link need not be so on another: what a trial on one machine finds holds there.
    """

    numerics = Numerics.ROUNDING
    shortens = EXCHANGE

    megabytes: int = _SIZES[1]

    @classmethod
    def candidates(cls, run: Run, machine: Machine) -> Sequence[Self]:
        """Sizes that part the gradients otherwise than torch's own; of those that hold them all, the smallest."""
        total = megabytes(run)
        several = [size for size in _SIZES if total / _MOST_BUCKETS <= size < total]
        whole = [size for size in _SIZES if size >= total > _DEFAULT][:1]
        return tuple(cls(megabytes=size) for size in (*several, *whole)) or (cls(),)

    def why_not(self, run: Run, models: Sequence[Mapping[str, Scalar]]) -> str | None:
        """Are its gradients more than the first bucket?"""
        return "All gradients leave in one bucket, of one megabyte at most." if megabytes(run) <= _SIZES[0] else None

    def argument(self, run: Run) -> tuple[str, str]:
        """A size in MB."""
        return "bucket_cap_mb", str(self.megabytes)

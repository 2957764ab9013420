"""bucket-size: how many gradients DistributedDataParallel sends at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self, final

from hotlap.levers.data_parallel import EXCHANGE, WRAPPERS, forward_sites, why_none
from hotlap.levers.frameworks import in_their_words
from hotlap.levers.lever import Lever, Numerics
from hotlap.record import Machine, Phase, Run
from hotlap.source import AddArgument, Edit, scripts

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

    What: the argument of `DistributedDataParallel`, or of Hugging Face's `TrainingArguments`.
    Why: a bucket leaves when its last gradient is there. Small ones leave early, and hide behind the rest of the
    backward pass; each costs the latency of an exchange (Li and others, "PyTorch Distributed", VLDB 2020). Which size
    is best depends on the link and on the model, and is not known before it is tried.
    When it hurts: sums over more than two ranks are made in another order, so last bits differ. A size that is good on
    one link need not be so on another: what a trial on one machine finds holds there.
    """

    numerics: ClassVar[Numerics] = Numerics.ROUNDING
    across_ranks: ClassVar[bool] = True
    shortens: ClassVar[Sequence[Phase]] = EXCHANGE
    no_line: ClassVar[str] = "The script makes no DistributedDataParallel, or chooses this itself."

    megabytes: int = _SIZES[1]

    @classmethod
    def candidates(cls, run: Run, machine: Machine) -> Sequence[Self]:
        """Sizes that part the gradients otherwise than torch's own; of those that hold them all, the smallest."""
        total = _megabytes(run)
        several = [size for size in _SIZES if total / _MOST_BUCKETS <= size < total]
        whole = [size for size in _SIZES if size >= total > _DEFAULT][:1]
        return tuple(cls(megabytes=size) for size in (*several, *whole)) or (cls(),)

    def refuses(self, run: Run, machine: Machine) -> str | None:
        """Is there such a model, with more gradients than the first bucket takes?"""
        few = _megabytes(run) <= _SIZES[0]
        return why_none(run) or ("All gradients leave in one bucket, of one megabyte at most." if few else None)

    def edits(self, run: Run) -> Sequence[Edit]:
        """One argument more, where the script wraps its model, or in the framework's own words."""
        calls = [(script, call) for script in scripts(run) for call in script.calls(*WRAPPERS)]
        if not calls:
            return in_their_words(run, self.name, value=str(self.megabytes)) or ()
        return tuple(
            AddArgument(site=script.site(call, calls=WRAPPERS[0]), keyword="bucket_cap_mb", value=str(self.megabytes))
            for script, call in calls
            if not any(word.arg == "bucket_cap_mb" for word in call.keywords)
        )


def _megabytes(run: Run) -> float:
    """Of the gradients of the largest model."""
    known = (site.detail.get("gradient_mb") for site in forward_sites(run))
    return max((size for size in known if isinstance(size, int | float)), default=0.0)

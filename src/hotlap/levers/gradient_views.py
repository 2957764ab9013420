"""gradient-views: gradients lie in the buckets in which DistributedDataParallel sends them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from hotlap.errors import UserError
from hotlap.levers.data_parallel import argument, exchange_s, forward_sites, why_none
from hotlap.levers.lever import Lever, Numerics, Scope, cannot_write
from hotlap.record import Ceiling, Machine, Run
from hotlap.source import Edit, scripts


@final
@dataclass(frozen=True, slots=True)
class GradientViews(Lever):
    """Has gradients computed in the buckets that are sent: `gradient_as_bucket_view=True`.

    What: the argument of `DistributedDataParallel`.
    Why: without it each gradient is copied into a bucket and back, and takes its memory twice (PyTorch's documentation
    of `DistributedDataParallel`, "gradient_as_bucket_view").
    When it hurts: a gradient is then a part of a larger tensor, which cannot be detached in place: a script that calls
    `detach_()` is refused. What keeps a gradient beyond its step, without a copy, keeps the whole bucket, and sees it
    overwritten.
    """

    name: ClassVar[str] = "gradient-views"
    scope: ClassVar[Scope] = Scope.PROCESS
    numerics: ClassVar[Numerics] = Numerics.EXACT
    across_ranks: ClassVar[bool] = True

    def rejects(self, run: Run, machine: Machine) -> str | None:
        """Is there such a model, are its gradients apart, and does nothing detach them?"""
        reason = why_none(run)
        if reason is None and all(site.detail.get("gradient_views") for site in forward_sites(run)):
            reason = "Gradients lie in their buckets already."
        return (
            reason
            or self._detaches(run)
            or cannot_write(self, run, "The script makes no DistributedDataParallel, or chooses this itself.")
        )

    def _detaches(self, run: Run) -> str | None:
        try:
            calls = [call for script in scripts(run) for call in script.methods("detach_")]
        except UserError as error:
            return str(error)
        return f"Line {calls[0].lineno} calls detach_(), which a part of a bucket does not allow." if calls else None

    def saves_at_most_s(self, run: Run, ceilings: Sequence[Ceiling]) -> float:
        """The backward pass, in which gradients are copied."""
        return exchange_s(run)

    def edits(self, run: Run) -> Sequence[Edit]:
        """One argument more."""
        return argument(run, self.name, "gradient_as_bucket_view", "True")

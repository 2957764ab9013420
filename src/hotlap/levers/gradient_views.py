"""gradient-views: gradients lie in the buckets in which DistributedDataParallel sends them."""

from collections.abc import Mapping, Sequence

from hotlap.levers.data_parallel import EXCHANGE, WrapperArgument
from hotlap.levers.lever import Numerics
from hotlap.record import Run, Scalar
from hotlap.source import scripts


class GradientViews(WrapperArgument):
    """Has gradients computed in the buckets that are sent: `gradient_as_bucket_view=True`.

    What: the argument of `DistributedDataParallel`.
    Why: without it each gradient is copied into a bucket and back, and takes its memory twice (PyTorch's documentation
    of `DistributedDataParallel`, "gradient_as_bucket_view").
    When it hurts: a gradient is then a part of a larger tensor, which cannot be detached in place: a script that calls
    `detach_()` is refused. What keeps a gradient beyond its step, without a copy, keeps the whole bucket, and sees it
    overwritten.
    """

    numerics = Numerics.EXACT
    shortens = EXCHANGE

    def why_not(self, run: Run, models: Sequence[Mapping[str, Scalar]]) -> str | None:
        """Are its gradients apart, and does nothing detach them?"""
        if all(one.get("gradient_views") for one in models):
            return "Gradients lie in their buckets already."
        calls = [call for script in scripts(run) for call in script.methods("detach_")]
        return f"Line {calls[0].lineno} calls detach_(), which a part of a bucket does not allow." if calls else None

    def argument(self, run: Run) -> tuple[str, str]:
        """As torch has it."""
        return "gradient_as_bucket_view", "True"

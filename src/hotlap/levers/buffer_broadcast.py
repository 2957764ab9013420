"""buffer-broadcast: buffers that no step changes are not sent to all ranks in each of them."""

from collections.abc import Mapping, Sequence

from hotlap.levers.data_parallel import WrapperArgument
from hotlap.levers.lever import Numerics
from hotlap.levers.models import forward_sites
from hotlap.record import Phase, Run, Scalar


class BufferBroadcast(WrapperArgument):
    """Stops sending the model's buffers from rank 0 to all others in front of each forward pass.

    What: `forward_sync_buffers=False` in `DistributedDataParallel`, which up to torch 2.12 is `broadcast_buffers`.
    Why: masks, tables of positions and the like are buffers, which no step changes, and are sent all the same
    (PyTorch's documentation of `DistributedDataParallel`). With a mask of 256 KB in each of twelve small layers two
    ranks took 1.7 times as long.
    When it hurts: buffers that differ between ranks then stay different. So it is refused where BatchNorm keeps
    statistics of the batches of one rank, and the gate compares the buffers of each rank with its own baseline. Buffers
    that one rank alone changes, after the trials, would no longer reach the others.
    """

    numerics = Numerics.EXACT
    shortens = (Phase.FORWARD, Phase.COMMUNICATION)  # it begins the forward pass

    def why_not(self, run: Run, models: Sequence[Mapping[str, Scalar]]) -> str | None:
        """Has it buffers that are sent, and are they no statistics of a rank's own batches?"""
        if not any(one.get("sends_buffers") for one in models):
            return "No model has buffers that are sent in each step."
        if any(one.get("batch_statistics") for one in models):
            return "A layer keeps statistics of the batches of its own rank in its buffers, which would drift apart."
        return None

    def argument(self, run: Run) -> tuple[str, str]:
        """By the name that this torch has for it."""
        keywords = [str(site.detail.get("sends_buffers") or "") for site in forward_sites(run, "data_parallel")]
        return next(filter(None, keywords), ""), "False"

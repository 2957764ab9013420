"""buffer-broadcast: buffers that no step changes are not sent to all ranks in each of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from hotlap.levers.data_parallel import argument, forward_sites, why_none
from hotlap.levers.lever import Lever, Numerics, Scope, cannot_write
from hotlap.record import Ceiling, Machine, Phase, Run
from hotlap.source import Edit


@final
@dataclass(frozen=True, slots=True)
class BufferBroadcast(Lever):
    """Stops sending the model's buffers from rank 0 to all others in front of each forward pass.

    What: `forward_sync_buffers=False` in `DistributedDataParallel`, which up to torch 2.12 is `broadcast_buffers`.
    Why: masks, tables of positions and the like are buffers, which no step changes, and are sent all the same
    (PyTorch's documentation of `DistributedDataParallel`). With a mask of 256 KB in each of twelve small layers two
    ranks took 1.7 times as long.
    When it hurts: buffers that differ between ranks then stay different. So it is refused where BatchNorm keeps
    statistics of the batches of one rank, and the gate compares the buffers of each rank with its own baseline. Buffers
    that one rank alone changes, after the trials, would no longer reach the others.
    """

    name: ClassVar[str] = "buffer-broadcast"
    scope: ClassVar[Scope] = Scope.PROCESS
    numerics: ClassVar[Numerics] = Numerics.EXACT
    across_ranks: ClassVar[bool] = True

    def rejects(self, run: Run, machine: Machine) -> str | None:
        """Is there such a model, has it buffers that are sent, and are they no statistics of a rank's own batches?"""
        reason = why_none(run)
        details = [site.detail for site in forward_sites(run)]
        if reason is None and not any(one.get("sends_buffers") for one in details):
            reason = "No model has buffers that are sent in each step."
        if reason is None and any(one.get("batch_statistics") for one in details):
            reason = "A layer keeps statistics of the batches of its own rank in its buffers, which would drift apart."
        return reason or cannot_write(self, run, "The script makes no DistributedDataParallel, or chooses this itself.")

    def saves_at_most_s(self, run: Run, ceilings: Sequence[Ceiling]) -> float:
        """What is waited for, and on a device the forward pass, of which it is the beginning."""
        return (run.mean_phase_s(Phase.COMMUNICATION) or 0.0) + (run.mean_phase_s(Phase.FORWARD) or 0.0)

    def edits(self, run: Run) -> Sequence[Edit]:
        """One argument more, by the name that this torch has for it."""
        keywords = [str(site.detail.get("sends_buffers") or "") for site in forward_sites(run)]
        keyword = next(filter(None, keywords), None)
        return () if keyword is None else argument(run, self.name, keyword, "False")

"""Processes that train together: each rank is held to its own baseline, and they must end as equal as they did in it.

Its own batches make a rank's share of the global batch, so where each rank trains on the batches that it had, the
global batch is the same as a set.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from hotlap.gate.evidence import Evidence, Ruling, harmed, undecided
from hotlap.gate.saved import StateKey, other_states
from hotlap.record import Run, StateDigest, Verdict


def of_each(evidence: Evidence) -> tuple[Evidence, ...]:
    """For each rank, what bears on it alone."""
    size = max((1 + len(run.peers) for run in (*evidence.baseline(), *evidence.with_lever())), default=1)
    return tuple(evidence.of_each(partial(_of_rank, rank=rank)) for rank in range(size))


def missing(evidence: Evidence) -> Ruling | None:
    """UNDECIDED where a rank left no record of one of the runs."""
    for run in (*evidence.baseline(), *evidence.with_lever()):
        known = {run.rank, *(peer.rank for peer in run.peers)}
        lost = next((rank for rank in range(run.world_size) if rank not in known), None)
        if lost is not None:
            return undecided(f"Of one run nothing is known of rank {lost}, so its training is not compared.")
    return None


def joined(rulings: Sequence[Ruling], evidence: Evidence) -> Ruling:
    """One ruling from those of all ranks, in their order: the worst of them, else whether they agree at the end."""
    if len(rulings) == 1:
        return rulings[0]
    for verdict in (Verdict.HARMED, Verdict.UNDECIDED):
        worst = next(((rank, ruling) for rank, ruling in enumerate(rulings) if ruling.verdict is verdict), None)
        if worst is not None:
            return replace(worst[1], why=f"Rank {worst[0]}: {worst[1].why}")
    apart = _apart(evidence)
    if apart is not None:
        return apart
    return replace(
        rulings[0], why=f"{rulings[0].why} So it is for each of {len(rulings)} ranks, compared with its own baseline."
    )


def _apart(evidence: Evidence) -> Ruling | None:
    """HARMED where parameters are not the same on all ranks, and in the baseline they are."""
    own = {key for run in evidence.baseline() for key, _ in _differing(run)}
    for run in evidence.with_lever():
        for key, one in _differing(run):
            if key not in own:
                return harmed(f"The parameters of {one.name} are not the same on all ranks after step {one.step}.")
    return None


def _differing(run: Run) -> list[tuple[StateKey, StateDigest]]:
    return [one for peer in run.peers for one in other_states(run, peer, lambda state: state.parameters).items()]


def _of_rank(run: Run, *, rank: int) -> Run:
    return replace((run, *run.peers)[rank], peers=())

"""The records of several processes that train together -> one Run that knows all of them.

Processes that meet in each step take equally long for it, whoever is slow: those that wait for a slow one look slow
themselves. So they are compared on the time that each spends outside of collectives.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean, median

from hotlap.record import HotLine, Phase, RankFacts, Run, Status

# The worst that happened to any of the processes is what happened to the run.
_WORST_FIRST = (Status.CRASHED, Status.HUNG, Status.LAPSED, Status.ENDED, Status.COMPLETE)


def merge(runs: Sequence[Run]) -> Run:
    """The run of the first rank, with what is known of each beside it. One run alone is left as it is.

    `runs`: in the order in which they ended: who fails first knows why, the others only that it is gone.
    """
    by_end, runs = runs, sorted(runs, key=lambda run: run.rank)
    first = runs[0]
    if first.world_size == 1 and len(runs) == 1:
        return first
    status = next((status for status in _WORST_FIRST if any(run.status is status for run in runs)), first.status)
    notes = dict.fromkeys(note for run in runs for note in run.notes)
    not_installed = dict.fromkeys(reason for run in runs for reason in run.not_installed)
    lost = sorted(set(range(first.world_size)) - {run.rank for run in runs})
    if lost:
        notes[_lost(lost, first.world_size)] = None
    return replace(
        first,
        status=status,
        error=next((_said(run) for run in by_end if run.status is status and run.error), None),
        ranks=_facts(runs) if len(runs) > 1 else (),
        peers=tuple(runs[1:]) if first.batch_digest is not None else (),
        not_installed=tuple(not_installed),
        unreached=tuple(f"{path} in rank {run.rank}" for run in runs for path in run.unreached),
        notes=tuple(notes),
    )


def _said(run: Run) -> str | None:
    return f"rank {run.rank}: {run.error}" if run.status is Status.CRASHED else run.error


def _lost(ranks: list[int], world_size: int) -> str:
    names = ", ".join(map(str, ranks[:8])) + (" and more" if len(ranks) > 8 else "")
    return (
        f"Of {world_size} processes that train together, {len(ranks)} left no record here (rank {names}): on another "
        "host, or still held in a collective when hotlap ended the run."
    )


def _facts(runs: Sequence[Run]) -> tuple[RankFacts, ...]:
    common = set.intersection(*(set(run.step_index) for run in runs))
    if not common:
        return ()
    on_device = any(run.collectives_on_device for run in runs)
    communication = _on_device(runs) if on_device else _on_host(runs, sorted(common))
    found = []
    for run in runs:
        rows = [i for i, step in enumerate(run.step_index) if step in common]
        compute_s = _compute_s(run)
        wait_s, transfer_s, hidden_s = communication[run.rank]
        found.append(
            RankFacts(
                rank=run.rank,
                host=run.host or "",
                step_s=fmean(run.step_s[i] for i in rows),
                compute_s=max(0.0, median(compute_s[step] for step in common) - hidden_s),
                wait_s=wait_s,
                transfer_s=transfer_s,
                phase_s={
                    phase: median(parts[i] for i in rows) if parts is not None else None
                    for phase, parts in run.phase_s.items()
                },
                hot_lines=_hottest(run),
            )
        )
    return tuple(found)


def _hottest(run: Run) -> tuple[HotLine, ...]:
    by_phase: dict[Phase, HotLine] = {}
    for line in sorted((line for line in run.hot_lines if line.inside), key=lambda line: line.step_s):
        by_phase[line.phase] = line
    return tuple(by_phase.values())


def _compute_s(run: Run) -> Mapping[int, float]:
    """Step -> its seconds outside of collectives."""
    held_s = _held_s(run)
    return {step: seconds - held_s.get(step, 0.0) for step, seconds in zip(run.step_index, run.step_s, strict=True)}


_Communication = Mapping[int, tuple[float | None, float | None, float]]
"""Rank -> waiting, transfer, and the part of both that the host is not held for; None: it cannot be told."""


def _on_host(runs: Sequence[Run], steps: Sequence[int]) -> _Communication:
    """In each step the process that is held the shortest waits for nobody; what another is held longer is waiting.

    Means, which add up to the communication of the mean step.
    """
    held = [_held_s(run) for run in runs]
    if not all(run.host for run in runs) or any(run.collectives_of_some for run in runs) or not all(held):
        return {run.rank: (None, None, 0.0) for run in runs}
    shortest = {step: min(mine[step] for mine in held) for step in steps}
    transfer_s = fmean(shortest.values())
    return {
        run.rank: (fmean(mine[step] - shortest[step] for step in steps), transfer_s, 0.0)
        for run, mine in zip(runs, held, strict=True)
    }


def _held_s(run: Run) -> Mapping[int, float]:
    """Step -> seconds in collectives; empty where that was not measured."""
    return dict(zip(run.step_index, run.phase_s.get(Phase.COMMUNICATION) or (), strict=False))


def _on_device(runs: Sequence[Run]) -> _Communication:
    """The kernel of a collective runs from when a process comes until the last one has come and the data have arrived:
    the shortest is transfer alone, and what another's takes longer is waiting. Known where operators were looked at.
    """
    windows = {run.rank: run.operators for run in runs}
    busy = {rank: window.communication_s for rank, window in windows.items() if window is not None}
    times = [seconds for seconds in busy.values() if seconds is not None]
    if len(times) < len(runs):
        return {run.rank: (None, None, 0.0) for run in runs}
    shortest = min(times)
    return {
        rank: ((busy[rank] or 0.0) - shortest, shortest, (window.communication_exposed_s or 0.0) if window else 0.0)
        for rank, window in windows.items()
    }

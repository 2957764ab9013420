"""Buckets of gradients as each process saw them -> where their time went, over all processes."""

from collections.abc import Iterable, Sequence
from statistics import fmean

from hotlap.record import BucketPass, Exchange, RankLog


def exchanged(logs: Sequence[RankLog]) -> Exchange | None:
    """Means a step, over the steps that all have seen alike. None without any, or from several hosts, of which each has
    a clock of its own."""
    if len(logs) < 2 or len({log.host for log in logs}) > 1:
        return None
    by_step = [_by_step(log) for log in logs]
    common = set.intersection(*(set(steps) for steps in by_step))
    # A process may have looked at a part of its first or last step only.
    alike = [s for s in common if len({tuple(len(one.buckets) for one in steps[s]) for steps in by_step}) == 1]
    if not alike:
        return None
    ranks = [log.rank for log in logs]
    made = [_pass(ranks, passes) for step in alike for passes in zip(*(steps[step] for steps in by_step), strict=True)]

    def mean(values: Iterable[float]) -> float:
        return sum(values) / len(alike)

    return Exchange(
        num_steps=len(alike),
        passes=len(made) / len(alike),
        buckets=mean(one.buckets for one in made),
        num_bytes=mean(one.num_bytes for one in made),
        link_s=mean(one.link_s for one in made),
        exposed_s=mean(one.exposed_s for one in made),
        late_s={
            rank: mean(one.late_s.get(rank, 0.0) for one in made)
            for rank in ranks
            if any(rank in one.late_s for one in made)
        },
    )


def _by_step(log: RankLog) -> dict[int, list[BucketPass]]:
    found: dict[int, list[BucketPass]] = {}
    for one in log.passes:
        found.setdefault(one.step_index, []).append(one)
    return found


def _pass(ranks: Sequence[int], passes: Sequence[BucketPass]) -> Exchange:
    """One backward pass in all processes: as an `Exchange` of one step.

    A bucket is on the link from when the last process has it ready, or the bucket before it is through, until the first
    process has it back: another one may be told late.
    """
    last = [one.buckets[-1].ready for one in passes]
    computed = max(last)
    through, link_s, exposed_s = 0.0, 0.0, 0.0
    for column in zip(*(one.buckets for one in passes), strict=True):
        begin = max(through, *(bucket.ready for bucket in column))
        through = max(begin, min(bucket.back for bucket in column))
        link_s += through - begin
        exposed_s += max(0.0, through - max(begin, computed))
    slowest = last.index(computed)
    others = [ready for at, ready in enumerate(last) if at != slowest]
    return Exchange(
        num_steps=1,
        passes=1.0,
        buckets=float(len(passes[0].buckets)),
        num_bytes=float(sum(bucket.num_bytes for bucket in passes[0].buckets)),
        link_s=link_s,
        exposed_s=exposed_s,
        late_s={ranks[slowest]: computed - fmean(others)},
    )

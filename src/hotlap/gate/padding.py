"""Batches that a lever pads further: what is padding is set apart, and the rest compared."""

from collections.abc import Iterable
from dataclasses import replace

from hotlap.gate.evidence import Evidence, Pair
from hotlap.record import Run

_DIMS = (0, 1)


def apart(evidence: Evidence) -> Evidence | None:
    """Evidence in which batches are the same where they are but for padding at the end of one of their dimensions.

    None where they differ in more with the lever, or nothing was recorded that tells.
    """
    return next((found for dim in _DIMS if (found := _without(evidence, dim)) is not None), None)


def _without(evidence: Evidence, dim: int) -> Evidence | None:
    base, lever = _unpadded(evidence.base, dim), _unpadded(evidence.lever, dim)
    if not all(_same(one, other) for one in base[:1] for other in lever):
        return None
    return replace(
        evidence,
        base=base,
        lever=lever,
        nudged=_unpadded(evidence.nudged, dim),
        base_seeds=_unpadded(evidence.base_seeds, dim),
        lever_seeds=_unpadded(evidence.lever_seeds, dim),
    )


def _unpadded(runs: Iterable[Run], dim: int) -> tuple[Run, ...]:
    return tuple(replace(run, batch_digest=_of_dim(run, dim)) for run in runs)


def _of_dim(run: Run, dim: int) -> tuple[str | None, ...] | None:
    if run.unpadded_digest is None:
        return None
    return tuple(None if told is None else told[dim] for told in run.unpadded_digest)


def _same(base: Run, lever: Run) -> bool:
    mine, other = base.batch_digest, lever.batch_digest
    return mine is not None and other is not None and all(mine[i] == other[j] for _, i, j in Pair(base, lever).steps())

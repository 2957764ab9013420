"""no-epoch-gap: workers stay from one epoch to the next, with the seeds that new ones would have had."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, ClassVar, final

from hotlap.levers.lever import Lever, Numerics, Patch, Scope
from hotlap.levers.loaders import (
    NO_LINE,
    NO_LOADER,
    has_items,
    refused_by_all,
    replace_datasets,
    saves_at_most_s,
    wrapping_edits,
)
from hotlap.record import Ceiling, LoaderFacts, Machine, Phase, Run
from hotlap.source import Edit
from hotlap.units import percent

# As for loaders in general (loaders.MIN_SHARE).
MIN_SHARE = 0.02


@final
@dataclass(frozen=True, slots=True)
class NoEpochGap(Lever):
    """Wraps data sets that are read by workers in `hotlap.data.lasting`.

    What: the worker processes of a loader are kept when an epoch ends, and are seeded for the next one as new processes
    would be: the same base seed, drawn at the same moment, `worker_init_fn` called again. Same samples, same order,
    same random draws in the workers and in the training process.
    Why: a DataLoader ends its workers after each epoch and starts them again, with a first batch that nobody has made
    yet (pytorch/pytorch#15849, from which `persistent_workers` came). That argument itself takes one draw less from
    torch's generator, so that samples come in another order and losses cannot be compared.
    When it hurts: workers that stay hold their memory between epochs, through a validation as well. A data set that
    changes (in the training process, or in a worker) must be copied anew; that is noticed, and costs the start.
    """

    name: ClassVar[str] = "no-epoch-gap"
    scope: ClassVar[Scope] = Scope.LOADER
    numerics: ClassVar[Numerics] = Numerics.EXACT

    def rejects(self, run: Run, machine: Machine) -> str | None:
        """Are there workers that end, and does their start cost anything?"""
        if not run.loaders:
            return NO_LOADER
        refused = refused_by_all(run, _refuses)
        if refused is not None:
            return refused
        gap = _gap_share(run)
        if gap is not None and gap < MIN_SHARE:
            return f"The waits at the begin of epochs take {percent(gap)} of the time, so there is nothing to gain."
        return None if self.edits(run) else NO_LINE

    def saves_at_most_s(self, run: Run, ceilings: Sequence[Ceiling]) -> float:
        """The waits at the begin of epochs; all that a step waits where none was recorded."""
        gap = _gap_share(run)
        mean_s = sum(run.step_s) / len(run.step_s) if run.step_s else 0.0
        return saves_at_most_s(run, ceilings) if gap is None else gap * mean_s

    def install(self, patch: Patch) -> None:
        """Replaces the data set that a DataLoader is made with; those made before are left alone."""
        from hotlap.data import lasting
        from hotlap.data.stand_in import within

        def wrap(dataset: Any) -> Any:
            return lasting(dataset) if has_items(dataset) else dataset

        replace_datasets(patch, lambda dataset: within(dataset, wrap, outside=("overlapped",)))

    def edits(self, run: Run) -> Sequence[Edit]:
        """`lasting(...)` around the data set of each loader whose workers end."""
        return wrapping_edits(run, [loader for loader in run.loaders if _refuses(loader) is None], "lasting")


def _refuses(loader: LoaderFacts) -> str | None:
    if loader.num_items is None:
        return f"{loader.dataset} is an iterable data set: its place in the data is state that new workers begin anew."
    if not loader.num_workers:
        return "The script reads its data without workers, so none are started at the begin of an epoch."
    if loader.persistent_workers:
        return "The script keeps its workers already (persistent_workers=True)."
    return None


def _gap_share(run: Run) -> float | None:
    """Part of the time that first steps of epochs wait longer than others; None if no epoch began while recorded."""
    waits = run.phase_s.get(Phase.INPUT)
    if waits is None or not run.step_s:
        return None
    starts = {i for i in run.epoch_starts if i < len(waits)}
    others = [wait for i, wait in enumerate(waits) if i not in starts]
    if not starts or not others:
        return None
    usual_s = median(others)
    return sum(max(0.0, waits[i] - usual_s) for i in starts) / sum(run.step_s)

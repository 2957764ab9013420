"""workers: batches are made in so many processes beside the training."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, cast, final

from hotlap.levers.lever import Lever, Numerics, Patch, Scope
from hotlap.levers.loaders import (
    NO_LINE,
    NO_LOADER,
    hardly_waits,
    memory_bytes,
    refused_by_all,
    replace_arguments,
    saves_at_most_s,
    sites,
    trained_on,
    wrapping_edits,
)
from hotlap.record import Ceiling, LoaderFacts, Machine, Phase, Run
from hotlap.source import AddArgument, Edit
from hotlap.units import size

# torch's own default, and one more setting for items whose times differ much.
PREFETCH_FACTORS = (2, 4)

# Numbers tried: more seldom wins on one machine, and each is a trial of its own.
MOST_CANDIDATES = 4

# A loader of fewer batches is over before its workers have started.
LEAST_BATCHES = 4

# Batches on their way lie in /dev/shm; others need some of it, too.
SHARE_OF_SHM = 0.5


class _ByDraws:
    """What the lever does to the numbers: it depends on whether items draw random numbers."""

    def __get__(self, lever: Any, kind: type[Any]) -> Numerics:
        return Numerics.STATISTICAL if lever is None or lever.draws else Numerics.EXACT


@final
@dataclass(frozen=True, slots=True)
class Workers(Lever):
    """Reads map-style data sets with `num_workers` processes, which stay from epoch to epoch.

    What: `DataLoader(..., num_workers=N, prefetch_factor=P)` and `hotlap.data.lasting` around the data set. N is tried:
    as many as keep up with the training by the times that were measured, and numbers around it, within the cores that
    the process may use, /dev/shm, and free memory. Order of samples and the draws of the training process stay what
    they are.
    Why: by default batches are made in the training process, while nothing trains; the best number depends on the
    machine and is found by trying (PyTorch's tuning guide; pytorch/pytorch#13246 on memory). How they are started
    stays the script's choice: workers that stay are started once.
    When it hurts: items that draw random numbers draw others than before, for each worker has its own seed: equal
    training, other numbers. Workers take cores from a training on the CPU, and memory. An item that changes the data
    set changes a copy that the training never sees: such data sets are left alone.
    """

    name: ClassVar[str] = "workers"
    scope: ClassVar[Scope] = Scope.LOADER
    numerics: ClassVar[Numerics] = cast(Numerics, _ByDraws())

    num_workers: int = 1
    prefetch_factor: int = PREFETCH_FACTORS[0]
    draws: bool = True
    """Items draw random numbers, or nobody knows."""

    @classmethod
    def candidates(cls, run: Run, machine: Machine) -> Sequence[Self]:
        """Numbers around what keeps up with the training, the likeliest first; the best of them with more batches."""
        draws = any(loader.deterministic is not True for loader in trained_on(run))
        present = {loader.num_workers for loader in trained_on(run)}
        counts = [count for count in _counts(run, machine) if present != {count}]
        found = [cls(num_workers=count, draws=draws) for count in counts]
        more = [cls(num_workers=count, prefetch_factor=PREFETCH_FACTORS[1], draws=draws) for count in counts[:1]]
        return tuple(found + more) or (cls(draws=draws),)

    def rejects(self, run: Run, machine: Machine) -> str | None:
        """What the loaders are, then what there is to gain, then whether there is room."""
        if not run.loaders:
            return NO_LOADER
        if machine.system != "Linux":
            return f"Workers are tried where processes are forked; this is {machine.system}."
        refused = refused_by_all(run, _refuses)
        if refused is not None:
            return refused
        if {loader.num_workers for loader in trained_on(run)} == {self.num_workers} and self.prefetch_factor == 2:
            return f"The script reads its data with a num_workers of {self.num_workers} already."
        return hardly_waits(run) or self._no_room(run, machine) or (None if self.edits(run) else NO_LINE)

    def saves_at_most_s(self, run: Run, ceilings: Sequence[Ceiling]) -> float:
        """All that a step waits for its batch, or what the ceiling promises at best: whichever is more."""
        return saves_at_most_s(run, ceilings)

    def install(self, patch: Patch) -> None:
        """Changes the arguments of loaders made from now on."""
        from torch.utils.data import DataLoader

        from hotlap.data.iterators import taught
        from hotlap.data.staffing import Staffing

        given = self.prefetch_factor if self.prefetch_factor != PREFETCH_FACTORS[0] else None
        staffing = Staffing(self.num_workers, given, say=patch.notes.append, exact=not self.draws)
        replace_arguments(patch, staffing.change)
        patch.set(DataLoader, "_get_iterator", taught(DataLoader._get_iterator))
        patch.settled.append(staffing.settled)

    def edits(self, run: Run) -> Sequence[Edit]:
        """The arguments, and `lasting(...)` around the data set."""
        served = [loader for loader in run.loaders if _refuses(loader) is None]
        arguments: list[Edit] = []
        for site in sites(run, served):
            arguments.append(AddArgument(site=site, keyword="num_workers", value=str(self.num_workers)))
            if self.prefetch_factor != PREFETCH_FACTORS[0]:
                arguments.append(AddArgument(site=site, keyword="prefetch_factor", value=str(self.prefetch_factor)))
        return (*arguments, *wrapping_edits(run, served, "lasting"))

    def _no_room(self, run: Run, machine: Machine) -> str | None:
        loader = max(trained_on(run), key=_batch_bytes)
        needed = self.num_workers * self.prefetch_factor * _batch_bytes(loader)
        if machine.shm_bytes is not None and needed > SHARE_OF_SHM * machine.shm_bytes:
            return f"Batches on their way would take {size(needed)} of the {size(machine.shm_bytes)} of /dev/shm."
        if needed > memory_bytes(machine):
            return (
                f"Batches on their way would take {size(needed)}; {size(memory_bytes(machine))} of memory may be used."
            )
        return None


def _counts(run: Run, machine: Machine) -> list[int]:
    """Numbers of workers, the likeliest first."""
    cores = max(1, math.floor(machine.usable_cores))
    waits_s, step_s = run.mean_phase_s(Phase.INPUT) or 0.0, sum(run.step_s) / len(run.step_s) if run.step_s else 0.0
    # So many processes make a batch in the time that the rest of a step takes.
    keeps_up = min(cores, math.ceil(waits_s / (step_s - waits_s))) if step_s > waits_s else cores
    wanted = [keeps_up, cores, keeps_up * 2, cores - 1, keeps_up - 1, cores * 2]
    return list(dict.fromkeys(count for count in wanted if 1 <= count <= max(2, cores)))[:MOST_CANDIDATES]


def _batch_bytes(loader: LoaderFacts) -> int:
    return (loader.item_bytes or 0) * (loader.batch_size or 1)


def _refuses(loader: LoaderFacts) -> str | None:
    if loader.num_items is None:
        return f"{loader.dataset} is an iterable data set: each worker would give all of it."
    if loader.num_items < LEAST_BATCHES * (loader.batch_size or 1):
        return f"{loader.dataset} is over after {loader.num_items} items, before workers have started."
    if loader.deterministic is False and "draws" not in (loader.why_not or "draws"):
        return f"Items of {loader.dataset} depend on hidden state ({loader.why_not}), of which each worker has a copy."
    if not loader.num_workers and loader.start_method not in ("fork", None):
        return f"Workers would be started by {loader.start_method}, which needs a script that can be imported again."
    return None

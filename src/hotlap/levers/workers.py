"""workers: batches are made in so many processes beside the training."""

import ast
import math
from collections.abc import Iterator, Sequence
from typing import Any, Self, cast

from hotlap.errors import UserError
from hotlap.levers import loaders
from hotlap.levers.frameworks import in_their_words
from hotlap.levers.lever import Lever, Numerics, Scope
from hotlap.record import Ceiling, LoaderFacts, Machine, Phase, Run
from hotlap.source import Edit, Script
from hotlap.units import size

# torch's own default, and one more setting for items whose times differ much.
PREFETCH_FACTORS = (2, 4)

# Numbers tried: more seldom wins on one machine, and each is a trial of its own.
MOST_CANDIDATES = 4

# A loader of fewer batches is over before its workers have started.
LEAST_BATCHES = 4

# Batches on their way lie in /dev/shm; others need some of it, too.
SHARE_OF_SHM = 0.5

# What a worker takes for itself beside its batches: queues, their threads, and pages of Python objects that it looks at
# (torch 2.13, Linux).
WORKER_BYTES = 14 << 20

# From the start of one worker to its first batch, and its end (0.1 s to 0.15 s on two busy cores; torch 2.13, forked).
START_S = 0.1


class _ByDraws:
    """What the lever does to the numbers: it depends on whether items draw random numbers, and on the next epoch."""

    def __get__(self, lever: Any, kind: type[Any]) -> Numerics:
        changed = lever is None or lever.draws or lever.persistent_workers
        return Numerics.STATISTICAL if changed else Numerics.EXACT


class Workers(Lever):
    """Reads data with `num_workers` processes, which stay from epoch to epoch where epochs are short.

    What: `DataLoader(..., num_workers=N, prefetch_factor=P, persistent_workers=True)`. N is tried: as many as keep up
    with the training by the times that were measured, and numbers around it, within the cores that the process may use,
    /dev/shm, and free memory. `prefetch_factor` is written where it is not torch's 2; `persistent_workers` where the
    start of workers is a notable part of an epoch, also for the workers that the script has already. All other
    arguments (`timeout`, `worker_init_fn`, `multiprocessing_context`, `pin_memory_device`) stay the script's own.
    Why: by default batches are made in the training process, while nothing trains; the best number depends on the
    machine and is found by trying (PyTorch's tuning guide; pytorch/pytorch#13246 on memory). A DataLoader ends its
    workers after each epoch and starts them again, with a first batch that nobody has made yet (pytorch/pytorch#15849).
    What it promises: items that draw random numbers draw others than before, for each worker has its own seed: equal
    training, other numbers (`statistical`). So it is with workers that stay, whatever the items: torch then draws one
    number less each epoch, so samples come in another order from the second on, and the random states of workers go on
    from epoch to epoch. Otherwise samples, their order and the random state of the training are the same (`exact`).
    When it hurts: workers take cores from a training on the CPU, and memory. They work on copies: what an item changes
    in the data set is lost, and workers that stay do not see what the script changes between epochs, so they are not
    kept where it sets something in the data set or calls its methods; such changes from elsewhere go unseen. A sampler
    of the script's own is asked for indices ahead of the training. Left alone: loaders with `in_order=False`, arguments
    in `*`, or in a `**` that cannot be seen, classes derived from DataLoader, and iterable data sets: each worker would
    give all of it, or its own part in another order, and what it keeps from one epoch for the next would be lost.
    """

    scope = Scope.LOADER
    numerics = cast(Numerics, _ByDraws())
    across_ranks = True
    no_line = loaders.NO_LINE

    num_workers: int = 1
    prefetch_factor: int = PREFETCH_FACTORS[0]
    persistent_workers: bool = False
    """True: written so. False: as the script has it."""
    draws: bool = True
    """Items draw random numbers, or nobody knows."""

    @classmethod
    def candidates(cls, run: Run, machine: Machine) -> Sequence[Self]:
        """Numbers around what keeps up with the training, the likeliest first; the best of them with more batches; and
        the script's own number, where workers that stay may gain."""
        used = loaders.trained_on(run)
        draws = any(loader.deterministic is not True for loader in used)
        stay = _any_may_stay(run)
        present = {loader.num_workers for loader in used}
        counts = [count for count in _counts(run, machine) if present != {count}]
        found = [cls(num_workers=count, persistent_workers=stay, draws=draws) for count in counts]
        if counts:
            found.append(cls(counts[0], PREFETCH_FACTORS[1], persistent_workers=stay, draws=draws))
        if stay and len(present) == 1 and present != {0}:
            found.insert(0, cls(num_workers=min(present), persistent_workers=True, draws=draws))
        return tuple(found) or (cls(draws=draws),)

    def refuses(self, run: Run, machine: Machine) -> str | None:
        """What the loaders are, then what there is to gain, then whether there is room."""
        if not run.loaders:
            return loaders.NO_LOADER
        refused = loaders.refused_by_all(run, lambda loader: _refuses(run, loader))
        if refused is not None:
            return refused
        if self._only_stays(run) and not self.persistent_workers:
            return f"The script reads its data with a num_workers of {self.num_workers} already."
        return loaders.hardly_waits(run) or self._no_room(run, machine)

    def saves_at_most_s(self, run: Run, ceilings: Sequence[Ceiling]) -> float:
        """All that a step waits for its batch, or what the ceiling promises at best; of workers that only stay, what
        the first steps of epochs wait."""
        gap = _gap_share(run) if self._only_stays(run) else None
        return loaders.saves_at_most_s(run, ceilings) if gap is None else gap * run.mean_step_s()

    def edits(self, run: Run) -> Sequence[Edit]:
        """The arguments of each loader that is served, or those of the framework that makes it."""
        served = [
            one for one in run.loaders if _refuses(run, one) is None and (self.draws or one.deterministic is True)
        ]
        edits = [edit for one in served for edit in loaders.argument_edits(run, one, **self._arguments(run, one))]
        if edits or not served:
            return edits
        return in_their_words(run, self.name, **self._arguments(run, served[0])) or ()

    def _arguments(self, run: Run, loader: LoaderFacts) -> dict[str, str]:
        arguments = {"num_workers": str(self.num_workers)}
        if self.prefetch_factor != PREFETCH_FACTORS[0]:
            arguments["prefetch_factor"] = str(self.prefetch_factor)
        if self.persistent_workers and _may_stay(run, loader):
            arguments["persistent_workers"] = "True"
        return arguments

    def _only_stays(self, run: Run) -> bool:
        """The number of workers is the script's own."""
        present = {loader.num_workers for loader in loaders.trained_on(run)}
        return present == {self.num_workers} and self.prefetch_factor == PREFETCH_FACTORS[0]

    def _no_room(self, run: Run, machine: Machine) -> str | None:
        loader = max(loaders.trained_on(run), key=_batch_bytes)
        num_workers = self.num_workers * run.world_size
        needed = num_workers * self.prefetch_factor * _batch_bytes(loader)
        if machine.shm_bytes is not None and needed > SHARE_OF_SHM * machine.shm_bytes:
            return f"Batches on their way would take {size(needed)} of the {size(machine.shm_bytes)} of /dev/shm."
        needed += num_workers * WORKER_BYTES
        given = loaders.memory_bytes(machine)
        if needed > given:
            return f"Workers and batches on their way would take {size(needed)}; {size(given)} of memory may be used."
        return None


def _counts(run: Run, machine: Machine) -> list[int]:
    """Numbers of workers, the likeliest first."""
    cores = max(1, math.floor(machine.usable_cores / run.world_size))
    waits_s, step_s = run.mean_phase_s(Phase.INPUT) or 0.0, run.mean_step_s()
    # So many processes make a batch in the time that the rest of a step takes; 4.0000001, by a sum, are 4.
    keeps_up = min(cores, math.ceil(waits_s / (step_s - waits_s) - 1e-6)) if step_s > waits_s else cores
    wanted = [keeps_up, cores, keeps_up * 2, cores - 1, keeps_up - 1, cores * 2]
    return list(dict.fromkeys(count for count in wanted if 1 <= count <= max(2, cores)))[:MOST_CANDIDATES]


def _batch_bytes(loader: LoaderFacts) -> int:
    return (loader.item_bytes or 0) * (loader.batch_size or 1)


def _refuses(run: Run, loader: LoaderFacts) -> str | None:
    if loader.num_items is None:
        return f"{loader.dataset} is an iterable data set: each worker would give all of it, or its own part of it."
    if loader.num_items < LEAST_BATCHES * (loader.batch_size or 1):
        return f"{loader.dataset} is over after {loader.num_items} items, before workers have started."
    if loader.deterministic is False and "draws" not in (loader.why_not or "draws"):
        return f"Items of {loader.dataset} depend on hidden state ({loader.why_not}), of which each worker has a copy."
    if not loader.num_workers and loader.start_method not in ("fork", None):
        return f"Workers would be started by {loader.start_method}, which needs a script that can be imported again."
    hidden = loaders.why_hidden(run, loader)
    calls = loaders.calls_of(run, loader) if hidden is None else ()
    if any(word.arg == "in_order" for _, call in calls for word in call.keywords):
        return "The script says in which order batches of workers may come (in_order)."
    return hidden


def _any_may_stay(run: Run) -> bool:
    try:
        return any(_may_stay(run, loader) for loader in loaders.trained_on(run))
    except UserError:  # the source is not what it was
        return False


def _may_stay(run: Run, loader: LoaderFacts) -> bool:
    """Workers of this loader end, and not with it; their start is a notable part of an epoch, and the data set is not
    seen to change."""
    if loader.persistent_workers or loader.loader_anew:
        return False
    calls = loaders.calls_of(run, loader)
    if not calls or _refuses(run, loader) is not None or any(_changes(*made) for made in calls):
        return False
    gap = _gap_share(run) if loader.num_workers else None
    epoch_s = (loader.num_items or 0) / (loader.batch_size or 1) * run.mean_step_s()
    return epoch_s * loaders.MIN_SHARE < START_S if gap is None else gap >= loaders.MIN_SHARE


def _changes(script: Script, call: ast.Call) -> bool:
    """The script writes to something in the data set that this call is given, or calls a method of it; or may do so."""
    dataset = loaders.dataset_of(script, call)
    if dataset is None:
        return True
    names = {ast.dump(dataset)} if isinstance(dataset, ast.Name | ast.Attribute) else set()
    for node in ast.walk(script.tree):
        target = node.func if isinstance(node, ast.Call) else node
        if isinstance(target, ast.Attribute | ast.Subscript):
            written = target is not node or not isinstance(target.ctx, ast.Load)
            owners = [*_owners(target)] if written else ()
            if any(ast.dump(part) in names or getattr(part, "attr", "") == "dataset" for part in owners):
                return True
    return False


def _owners(node: ast.AST) -> Iterator[ast.AST]:
    """`data.tensors`, `data` of `data.tensors[0]`."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
        yield node


def _gap_share(run: Run) -> float | None:
    """Part of the time that first steps of epochs wait longer than others; None if no epoch began while recorded."""
    gaps_s = run.epoch_gaps_s()
    return sum(gaps_s) / sum(run.step_s) if gaps_s and run.step_s else None

"""input-bound: training waits for the next batch.

What it says: this part of each step passes in the data loader, before the model sees the batch, and most of it in the
part that is named: making items, their transforms, collating, waiting for workers. `next(iter(loader))` in a step is
named as such: it begins an epoch for one batch.
Why it is bad: the processor that trains does nothing useful meanwhile; no change to the model can win that time back.
Example: a `Dataset` that decodes and transforms images in the training process (num_workers=0) beside a small network.
Workers give an iterable data set once each, unless its `__iter__` asks `get_worker_info()` for its part.
Risk: a cache takes memory, and holds only items that are the same each time; more workers take cores.

Before:

    loader = DataLoader(data, batch_size=64, shuffle=True)

After:

    loader = DataLoader(data, batch_size=64, shuffle=True, num_workers=4, persistent_workers=True)
"""

import re

from hotlap.record import Finding, HotLine, IdleReason, InputPart, LoaderFacts, Machine, Phase, Run
from hotlap.rules.step import at_lines, chosen, device_s, finding, hottest, in_python
from hotlap.units import duration, percent, plural

# XProf speaks of an input-bound training from 5% of the step on and of a highly input-bound one from 20%
# (input_pipeline_analysis.cc). Ours: a tenth, because fetching plain tensors in the training process costs 3-8% in
# trainings that nobody would call slow, and the most there is to gain below is 1.11x.
MIN_SHARE = 0.10

# Of seven parts the largest is a seventh at least where all are known; where only one was timed (of workers, or of a
# script that was over before the others were looked at), it may be next to nothing. Ours: a quarter is worth a word.
_NAMED_SHARE = 0.25

_FIRST_OF_ITS_OWN = re.compile(r"\bnext\(\s*iter\(")

_BY_ITSELF = ", made by the training process itself"


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """Share of the step spent in the loader; with a device, as far as the device waits for it."""
    wait_s, starved_s = run.mean_phase_s(Phase.INPUT), device_s(run, Phase.INPUT)
    if wait_s is not None and starved_s is not None:
        wait_s = min(wait_s, starved_s)
    if wait_s is None or run.share_of(wait_s) < MIN_SHARE:
        return None
    loader = run.main_loader()
    told = (
        f"Each step waits {run.with_share(wait_s, ' of it')} for its batch{_made(run, loader)}{_largest(run, wait_s)}"
    )
    first = _of_an_epoch_each(run)
    if first is not None:
        anew = ", which begins an epoch for one batch: an order of all items is made, and dropped"
        # It is dropped in no loader.
        most_s = wait_s + sum(one.step_s for one in run.hot_lines if one.phase is Phase.OTHER and _same(one, first))
        return finding(run, wait_s, f"{told}{at_lines([first], wait_s)}{anew}.", at_most_s=most_s)
    return finding(
        run,
        wait_s,
        f"{told}{_collates(run, loader, wait_s)}{at_lines(in_python(run, Phase.INPUT), wait_s)}.",
        levers=_levers(run, loader),
    )


def explains(run: Run) -> frozenset[str]:
    """That the script's own Python drops such an order again."""
    first, most = _of_an_epoch_each(run), hottest(in_python(run, Phase.OTHER))
    return frozenset({"host-bound"} if first is not None and most and _same(most[0], first) else ())


def _of_an_epoch_each(run: Run) -> HotLine | None:
    """The line that waits longest for batches, where it takes the first one of an iterator that it makes."""
    waits = (line for line in run.hot_lines if line.phase is Phase.INPUT and not line.inside)
    most = max(waits, key=lambda line: line.step_s, default=None)
    return most if most is not None and _FIRST_OF_ITS_OWN.search(most.text) else None


def _same(one: HotLine, other: HotLine) -> bool:
    return (one.path, one.line) == (other.path, other.line)


def _made(run: Run, loader: LoaderFacts | None) -> str:
    """By whom: as the loader has it; of a trace by the marks of torch's, and lines of the user's where stacks were
    recorded."""
    if loader is not None:
        return f", made by {plural(loader.num_workers, 'worker')}" if loader.num_workers else _BY_ITSELF
    names = list(run.operators.held_up.get(IdleReason.INPUT, {})) if run.operators is not None else []
    lines = [name for name in names if not name.startswith("enumerate(DataLoader)")]
    how = _BY_ITSELF if any("_SingleProcess" in name for name in names) else ""
    how = " from workers" if any("_MultiProcessing" in name for name in names) else how
    return f"{how}, most of it in {lines[0]}" if lines and lines[0] == names[0] else how


def _part(run: Run) -> InputPart | None:
    """The largest part that was timed, where it is much of the host's wait."""
    known = {part: seconds for part, seconds in run.input_s.items() if seconds}
    part = max(known, key=lambda part: known[part], default=None)
    enough_s = _NAMED_SHARE * (run.mean_phase_s(Phase.INPUT) or 0.0)
    return part if part is not None and known[part] >= enough_s else None


def _largest(run: Run, wait_s: float) -> str:
    part = _part(run)
    if part is None:
        return ""
    seconds = run.input_s[part] or 0.0
    return f"; {percent(min(1.0, seconds / wait_s))} of that is {part.words}"


def _collates(run: Run, loader: LoaderFacts | None, wait_s: float) -> str:
    """Where what workers do was not timed: items that take next to nothing leave the script's function that puts them
    together."""
    if _part(run) is not InputPart.WORKERS or loader is None or loader.default_collate or loader.item_s is None:
        return ""
    items_s = loader.item_s * (loader.batch_size or 1)
    told = f", which make a batch's items in {duration(items_s)}: what takes long is the script's collate function"
    return told if items_s < _NAMED_SHARE * wait_s * loader.num_workers else ""


def _levers(run: Run, loader: LoaderFacts | None) -> tuple[str, ...]:
    part = _part(run)
    if loader is None:
        return ("workers", "cached-dataset")
    if loader.iterable:
        return ()  # each worker would give all of it, and there are no items to keep
    if part is InputPart.INDICES:  # the training process draws them, whoever makes the items
        own_s = sum(line.step_s for line in in_python(run, Phase.INPUT))
        is_own = own_s > 0.5 * (run.input_s[part] or 0.0)  # a sampler of the script's
        return () if loader.num_workers or is_own else ("batched-fetch",)
    if part is InputPart.COLLATE and not loader.default_collate:  # of the script's own: only elsewhere is it free
        return ("workers",)
    return chosen(
        {
            "cached-dataset": True,
            "cached-prefix": part is not InputPart.COLLATE,
            "workers": True,
            "batched-fetch": loader.num_workers == 0 and part in (InputPart.ITEMS, InputPart.COLLATE),
        }
    )

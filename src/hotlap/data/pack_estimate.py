"""What packing would give, measured on some items: items a second before and after, and bytes on the disk."""

import random
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from hotlap.data import pack_folder, pack_values
from hotlap.data.pack_layout import Rows, layout_of
from hotlap.data.pack_reading import PackedDataset
from hotlap.data.pack_source import Source, spread
from hotlap.data.pack_writing import write
from hotlap.errors import UserError

# Items looked at, and how long computing each of them a first time may take.
NUM_MEASURED = 256
_FIRST_LOOK_S = 3.0

# Rounds of both, in turn; no further round begins after so long.
_MOST_ROUNDS = 15
_LEAST_ROUNDS = 3
_ROUNDS_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Medians over rounds, in one process, with all files in the page cache."""

    num_items: int
    num_measured: int
    num_rounds: int
    before_s: float
    """An item as the data set computes it."""
    after_s: float
    """An item read from the packed ones."""
    speedup: tuple[float, float]
    """The smallest and the largest of the rounds."""
    num_bytes: float
    """What all items would take on the disk."""
    free_bytes: int
    """What is free there."""


def estimate(dataset: Any, *, target: str | Path | None = None, name: str | None = None) -> Estimate:
    """Pack some items in a temporary folder, and measure both ways of getting them, in turn.

    Arguments:
        dataset: as for `pack`.
        target: where the packed data set is to be; None: the folder for temporary files.
        name: what messages call the data set.

    Raises:
        UserError: as for `pack`.
        ScriptFailed: the data set raised an error of its own.
    """
    pack_folder.arrow()
    source = Source(dataset, name or type(dataset).__name__)
    parent = Path(tempfile.gettempdir()) if target is None else Path(target).absolute().parent
    numbers, samples = _first_look(source)
    rows = Rows(layout_of(samples))
    del samples
    with _scratch(parent) as folder:
        write(folder, source.name, rows, (source.made(number, rows.row) for number in numbers))
        table = PackedDataset(folder)
        row_bytes = (folder / pack_folder.TABLE).stat().st_size / len(numbers)
        before, after = _rounds(source, numbers, table)
        free_bytes = shutil.disk_usage(parent).free
    ratios = [slow_s / fast_s for slow_s, fast_s in zip(before, after, strict=True)]
    return Estimate(
        num_items=source.num_items,
        num_measured=len(numbers),
        num_rounds=len(ratios),
        before_s=statistics.median(before),
        after_s=statistics.median(after),
        speedup=(min(ratios), max(ratios)),
        num_bytes=row_bytes * source.num_items,
        free_bytes=free_bytes,
    )


def _first_look(source: Source) -> tuple[list[int], list[Any]]:
    """(numbers, items): evenly spaced ones in random order, as many as there is time for."""
    wanted = spread(source.num_items, NUM_MEASURED)
    random.Random(0).shuffle(wanted)
    numbers: list[int] = []
    samples: list[Any] = []
    begun_s = perf_counter()
    for number in wanted:
        if numbers and perf_counter() - begun_s > _FIRST_LOOK_S:
            break
        samples.append(source.made(number, _that_can_be_kept))
        numbers.append(number)
    return numbers, samples


def _that_can_be_kept(item: Any) -> Any:
    pack_values.encode(item)
    return item


def _rounds(source: Source, numbers: Sequence[int], table: PackedDataset) -> tuple[list[float], list[float]]:
    """Seconds for an item (before, after) of each round."""
    order = list(range(len(numbers)))
    before: list[float] = []
    after: list[float] = []
    begun_s = perf_counter()
    while len(before) < _MOST_ROUNDS and (len(before) < _LEAST_ROUNDS or perf_counter() - begun_s < _ROUNDS_S):
        random.Random(len(before)).shuffle(order)
        before.append(_seconds(source.plain, [numbers[place] for place in order]))
        after.append(_seconds(table.__getitem__, order))
    return before, after


def _seconds(function: Callable[[int], Any], arguments: Sequence[int]) -> float:
    begun_s = perf_counter()
    for argument in arguments:
        function(argument)
    return (perf_counter() - begun_s) / len(arguments)


@contextmanager
def _scratch(parent: Path) -> Iterator[Path]:
    try:
        with tempfile.TemporaryDirectory(prefix=".hotlap-", dir=parent, ignore_cleanup_errors=True) as folder:
            yield Path(folder)
    except OSError as error:
        raise UserError(f"{parent} cannot be written to: {error.strerror or error}.") from None

"""`pack(dataset, folder)`: each item computed once, written as a row, read back, and compared with the item again."""

import random
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from hotlap import units
from hotlap.data import pack_folder, pack_values
from hotlap.data.pack_draft import check_target, drafted, publish
from hotlap.data.pack_folder import TABLE, Manifest
from hotlap.data.pack_layout import Rows, layout_of
from hotlap.data.pack_reading import PackedDataset
from hotlap.data.pack_source import Source, spread
from hotlap.data.pack_table import write_table
from hotlap.data.pack_workers import computed
from hotlap.errors import UserError

# Items looked at before the first is written: they tell the columns, and the room that all will take.
NUM_SAMPLES = 32

# Up to so many items all are computed a second time and compared with what was read back; of more, so many.
NUM_VERIFIED = 10_000

# The rest of a disk is for what comes with it (offsets, padding), and for others.
_SHARE_OF_FREE = 0.95

Progress = Callable[[str, int, int], None]
"""(what is being done, items done, of so many)."""

Compute = Callable[[Callable[[int], Any], Sequence[int]], Iterator[Any]]
"""What is made of these items, in their order: `pack_workers.computed`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """What was written."""

    folder: Path
    num_items: int
    num_verified: int
    num_bytes: int
    num_others: int
    """Items that fit no columns, and are kept as bytes."""


def pack(
    dataset: Any,
    folder: str | Path,
    *,
    name: str | None = None,
    verify: int | None = None,
    num_workers: int = 0,
    progress: Progress | None = None,
) -> Packing:
    """Write all items of `dataset` into a new folder, from which `packed(folder)` gives them back.

    Each item is computed twice: once to be written, and once, in another order, to be compared bit for bit with what
    was read back. The folder appears when all is done; whatever goes wrong before leaves nothing behind.

    Arguments:
        dataset: map-style, with items that always come out the same.
        folder: must not be there yet.
        name: what messages call the data set.
        verify: how many items are computed the second time, evenly spaced; None: all, but at most 10,000.
        num_workers: processes that compute the items; 0: this one.
        progress: told what is being done.

    Raises:
        UserError: the data set or the folder cannot be used; the message says why.
        ScriptFailed: the data set raised an error of its own.
    """
    target = Path(folder).absolute()
    check_target(target)
    pack_folder.arrow()
    source = Source(dataset, name or type(dataset).__name__)
    rows, row_bytes = look(source)
    check_room(target, source, row_bytes=row_bytes)
    compute = partial(computed, num_workers=num_workers, item_bytes=row_bytes)
    tell = progress or _silent
    numbers = range(source.num_items)
    verified = spread(source.num_items, NUM_VERIFIED if verify is None else verify)
    try:
        with drafted(target) as draft:
            raws = compute(lambda number: source.made(number, rows.row), numbers)
            num_others = write(draft, source.name, rows, _telling(raws, "packing", len(numbers), tell))
            table = PackedDataset(draft)
            for _ in _telling(table, "reading back", len(table), tell):
                pass  # the checksum of every row is compared
            _compare(table, source, verified, compute, tell)
            num_bytes = sum(path.stat().st_size for path in draft.iterdir())
            publish(draft, target)
    except OSError as error:
        why = error.strerror or error
        raise UserError(f"{target.parent} cannot be written to: {why}. Nothing was left there.") from None
    return Packing(
        folder=target,
        num_items=source.num_items,
        num_verified=len(verified),
        num_bytes=num_bytes,
        num_others=num_others,
    )


def look(source: Source) -> tuple[Rows, float]:
    """(the layout of the items, bytes of a row), from some of them."""
    samples = [source.made(number, _with_size) for number in spread(source.num_items, NUM_SAMPLES)]
    return Rows(layout_of([item for item, _ in samples])), sum(size for _, size in samples) / len(samples)


def _with_size(item: Any) -> tuple[Any, int]:
    return item, len(pack_values.encode(item))


def check_room(target: Path, source: Source, *, row_bytes: float) -> None:
    """Refuse what the disk cannot hold.

    Raises:
        UserError: there is less room than the items will take.
    """
    free = shutil.disk_usage(target.parent).free
    wanted = row_bytes * source.num_items
    if wanted > _SHARE_OF_FREE * free:
        raise UserError(
            f"{source.name} would take about {units.size(wanted)} in {target.parent}, where {units.size(free)} are "
            "free. Name a folder on another disk."
        )


def write(folder: Path, name: str, rows: Rows, raws: Iterable[list[bytes]]) -> int:
    """Fill the folder with these rows; how many of them fit no columns.

    Raises:
        OSError: it cannot be written to.
    """
    num_rows, num_others = write_table(folder / TABLE, rows, raws)
    about = Manifest(
        format=pack_folder.FORMAT,
        byteorder=sys.byteorder,
        dataset=name,
        num_items=num_rows,
        table_bytes=(folder / TABLE).stat().st_size,
        layout=rows.layout,
    )
    pack_folder.write_manifest(folder, about)
    return num_others


def _compare(table: PackedDataset, source: Source, numbers: Sequence[int], compute: Compute, tell: Progress) -> None:
    """Compute these items again, in another order, and compare them with what is read."""
    order = list(numbers)
    random.Random(0).shuffle(order)
    again = compute(lambda number: source.made(number, pack_values.encode), order)
    for number, item in zip(order, _telling(again, "comparing", len(order), tell), strict=True):
        if item != pack_values.encode(table[number]):
            raise UserError(
                f"Item {number} of {source.name} came out different when it was computed again, so it has no one form "
                "that could be packed (the clock, os.urandom, a hidden counter, files that change?)."
            )


def _telling(items: Iterable[Any], what: str, count: int, tell: Progress) -> Iterator[Any]:
    for done, item in enumerate(items):
        tell(what, done, count)
        yield item


def _silent(what: str, done: int, count: int) -> None:
    pass

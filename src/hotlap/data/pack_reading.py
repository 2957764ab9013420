"""`packed(folder)`: the items of a packed data set, each as the data set gave it."""

import bisect
import operator
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, final

import numpy as np
from torch.utils.data import Dataset

from hotlap.data import pack_folder, pack_values
from hotlap.data.pack_folder import TABLE, Manifest
from hotlap.data.pack_layout import Rows
from hotlap.data.pack_table import schema_of
from hotlap.errors import RecordError, UserError


@final
class PackedDataset(Dataset[Any]):
    """What `packed` returns. See `packed`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._manifest = pack_folder.read_manifest(folder)
        self._table = _Table(folder, self._manifest)

    def __len__(self) -> int:
        return self._manifest.num_items

    def __getitem__(self, index: Any) -> Any:
        number = operator.index(index)
        if number < 0:
            number += len(self)
        if not 0 <= number < len(self):
            raise IndexError(f"item {operator.index(index)} of {len(self)}")
        return self._table.item(number)

    def __iter__(self) -> Iterator[Any]:
        return map(self._table.item, range(len(self)))

    def __repr__(self) -> str:
        return f"packed({str(self.folder)!r}): {len(self)} items of {self._manifest.dataset}"

    def __reduce__(self) -> tuple[Any, ...]:
        return packed, (self.folder,)


def packed(folder: str | Path) -> PackedDataset:
    """The data set that `hotlap data pack DATASET --to FOLDER` wrote there, item for item.

    `packed(folder)[i]` is what `dataset[i]` was: tensors and arrays with the same bytes, types, shapes and strides,
    numbers, texts, pictures with the same pixels, in the same tuples, lists and dicts; each time in new memory. Any
    sampler, DataLoader or worker process may read it.

    The file is mapped, so that it takes no memory of its own. Each row carries a checksum, which is compared whenever
    the item is read: an item that has changed on disk is an error, never a sample.

    Raises:
        UserError: the folder holds no packed data set, or pyarrow is not installed.
        RecordError: it is damaged.
    """
    return PackedDataset(Path(folder).absolute())


@final
class _Table:
    """The mapped file."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self._folder = folder
        self._path = folder / TABLE
        self._size = manifest.table_bytes
        self._seed = pack_folder.seed_of(manifest.layout)
        pyarrow = pack_folder.arrow()
        try:
            # Of this the size is asked before each item: reading a mapped page behind the end of a file that was
            # truncated meanwhile would end the process (SIGBUS).
            self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            self._check_size()
            self._rows = Rows(manifest.layout)
            self._blocks = list(_blocks(pyarrow, self._path, self._rows))
        except (OSError, pyarrow.ArrowException, ValueError, TypeError) as error:
            if isinstance(error, OSError) and error.errno:
                raise UserError(f"{self._path} cannot be read: {error.strerror}.") from None
            raise self._damaged(error) from None
        # Number of the first row of each block; the last entry is N.
        self._starts = [0, *np.cumsum([len(block.checksums) for block in self._blocks]).tolist()]
        if self._starts[-1] != manifest.num_items:
            raise self._damaged(f"{self._starts[-1]} rows for {manifest.num_items} items")

    def __del__(self) -> None:
        descriptor = getattr(self, "_descriptor", -1)
        if descriptor >= 0:
            os.close(descriptor)

    def item(self, number: int) -> Any:
        """The item of a row."""
        self._check_size()
        place = bisect.bisect_right(self._starts, number) - 1
        block, row = self._blocks[place], number - self._starts[place]
        raws = [column[row] for column in block.columns]
        if pack_folder.checksum(self._seed, number=number, raws=raws) != int(block.checksums[row]):
            raise self._damaged(f"the checksum of item {number} differs")
        try:
            return self._rows.item(raws)
        except pack_values.Damaged as error:
            raise self._damaged(f"item {number}: {error}") from None

    def _check_size(self) -> None:
        size = os.fstat(self._descriptor).st_size
        if size != self._size:
            raise self._damaged(f"it has {size} bytes instead of {self._size}")

    def _damaged(self, why: object) -> RecordError:
        return RecordError(
            f"{self._path} is damaged, or was changed after it was written ({why}). "
            f"Remove {self._folder} and pack the data set again; nothing that differs is handed out."
        )


@final
class _Block:
    """The columns of one batch of rows, by row; the last is that of the items that fit no layout."""

    def __init__(self, batch: Any, rows: Rows) -> None:
        self.columns: list[Any] = [
            _fixed(batch.column(place), codec.row_bytes) if codec.element else _Varying(batch.column(place))
            for place, codec in enumerate(rows.codecs)
        ]
        self.columns.append(_Varying(batch.column(len(rows.codecs))))
        self.checksums = _fixed(batch.column(len(rows.codecs) + 1), 4).view("<u4").reshape(-1)


def _blocks(pyarrow: Any, path: Path, rows: Rows) -> Iterator[_Block]:
    """All batches of rows of a file; nothing of their values is read yet."""
    with pyarrow.ipc.open_stream(pyarrow.memory_map(str(path))) as reader:
        if not reader.schema.equals(schema_of(pyarrow, rows)):
            raise pack_values.Damaged("its columns are others")
        for batch in reader:
            yield _Block(batch, rows)


def _fixed(column: Any, row_bytes: int) -> Any:
    """(N, bytes of a row), of numbers or lists of as many numbers each."""
    num_bytes = len(column) * row_bytes
    memory = _memory(column, getattr(column, "values", column))
    if len(memory) < num_bytes:
        raise pack_values.Damaged(f"a column of {len(column)} rows has {len(memory)} bytes")
    return memory[:num_bytes].reshape(len(column), row_bytes)


@final
class _Varying:
    """Rows of different length."""

    def __init__(self, column: Any) -> None:
        self._memory = _memory(column, column)
        offsets = np.frombuffer(column.buffers()[1], "<i8")
        if len(offsets) <= len(column):
            raise pack_values.Damaged(f"a column of {len(column)} rows has {len(offsets)} offsets")
        self._offsets = offsets

    def __getitem__(self, row: int) -> Any:
        # A wrong offset gives other bytes, which their checksum tells.
        return self._memory[self._offsets[row] : self._offsets[row + 1]]


def _memory(column: Any, values: Any) -> Any:
    """The bytes of its values, as they lie in the mapped file."""
    found = values.buffers()[-1]
    if column.offset or column.null_count:
        raise pack_values.Damaged("a column begins elsewhere, or lacks values")
    return np.frombuffer(found, np.uint8) if found is not None and found.size else np.empty(0, np.uint8)

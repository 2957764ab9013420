"""Items -> the Arrow file of a packed data set, a batch of rows at a time."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np

from hotlap.data import pack_folder
from hotlap.data.pack_folder import CHECKSUMS, OTHERS
from hotlap.data.pack_layout import Codec, Rows

# A batch of rows is written when it has one of these; it is what packing holds in memory.
_BATCH_BYTES = 16 << 20
_BATCH_ROWS = 8192


def write_table(path: Path, rows: Rows, raws: Iterable[Sequence[bytes]]) -> tuple[int, int]:
    """Rows as `Rows.row` makes them -> the file; (how many there were, how many of them fit no columns).

    Raises:
        OSError: the file cannot be written.
    """
    pyarrow = pack_folder.arrow()
    batch, num_rows, num_others = _Batch(pyarrow, rows), 0, 0
    with pyarrow.OSFile(str(path), "wb") as file, pyarrow.ipc.new_stream(file, schema_of(pyarrow, rows)) as stream:
        for row in raws:
            batch.add(num_rows, row)
            num_rows += 1
            num_others += bool(row[-1])
            if batch.full:
                stream.write_batch(batch.taken())
        if batch.num_rows:
            stream.write_batch(batch.taken())
    return num_rows, num_others


@final
class _Batch:
    """Rows on their way into the file."""

    def __init__(self, pyarrow: Any, rows: Rows) -> None:
        self._pyarrow = pyarrow
        self._rows = rows
        self._seed = pack_folder.seed_of(rows.layout)
        self._clear()

    def _clear(self) -> None:
        self._columns: list[list[bytes]] = [[] for _ in range(len(self._rows.codecs) + 1)]
        self._checksums: list[int] = []
        self._num_bytes = 0

    @property
    def num_rows(self) -> int:
        return len(self._checksums)

    @property
    def full(self) -> bool:
        return self._num_bytes >= _BATCH_BYTES or self.num_rows >= _BATCH_ROWS

    def add(self, number: int, raws: Sequence[bytes]) -> None:
        """Append a row."""
        for column, raw in zip(self._columns, raws, strict=True):
            column.append(raw)
        self._checksums.append(pack_folder.checksum(self._seed, number=number, raws=raws))
        self._num_bytes += sum(map(len, raws))

    def taken(self) -> Any:
        """The rows as Arrow has them; begins anew."""
        arrow, num_rows = self._pyarrow, self.num_rows
        arrays = [
            _arrow_column(arrow, codec, raws, _arrow_type(arrow, codec, kind=column.kind))
            for codec, raws, column in zip(self._rows.codecs, self._columns, self._rows.layout.columns, strict=False)
        ]
        arrays.append(_arrow_column(arrow, None, self._columns[-1], arrow.large_binary()))
        checksums = np.array(self._checksums, "<u4").tobytes()
        arrays.append(arrow.Array.from_buffers(arrow.uint32(), num_rows, [None, arrow.py_buffer(checksums)]))
        self._clear()
        return arrow.RecordBatch.from_arrays(arrays, schema=schema_of(arrow, self._rows))


def schema_of(pyarrow: Any, rows: Rows) -> Any:
    """Names and types of the columns in the file."""
    columns = zip(rows.layout.columns, rows.codecs, strict=True)
    fields = [(column.name, _arrow_type(pyarrow, codec, kind=column.kind)) for column, codec in columns]
    return pyarrow.schema([*fields, (OTHERS, pyarrow.large_binary()), (CHECKSUMS, pyarrow.uint32())])


def _arrow_type(pyarrow: Any, codec: Codec, *, kind: str) -> Any:
    if not codec.element:
        return pyarrow.large_string() if kind == "text" else pyarrow.large_binary()
    element = pyarrow.from_numpy_dtype(np.dtype(codec.element))
    return element if codec.num_elements == 1 else pyarrow.list_(element, codec.num_elements)


def _arrow_column(pyarrow: Any, codec: Codec | None, raws: Sequence[bytes], kind: Any) -> Any:
    memory = pyarrow.py_buffer(b"".join(raws))
    if codec is None or not codec.element:
        offsets = np.concatenate([[0], np.cumsum([len(raw) for raw in raws], dtype=np.int64)]).astype("<i8")
        return pyarrow.Array.from_buffers(kind, len(raws), [None, pyarrow.py_buffer(offsets), memory])
    element = pyarrow.from_numpy_dtype(np.dtype(codec.element))
    values = pyarrow.Array.from_buffers(element, len(raws) * codec.num_elements, [None, memory])
    return values if codec.num_elements == 1 else pyarrow.FixedSizeListArray.from_arrays(values, codec.num_elements)

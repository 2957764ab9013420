"""One leaf of all items (the image, the label) in one contiguous array.

Shape letters: N items of the data set, B items of a batch.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, cast, final

import numpy as np
import torch

from hotlap.data.item.codec import CannotKeep, as_array, is_plain_tensor, unmarked
from hotlap.native import core, extension

Allocate = Callable[[tuple[int, ...], torch.dtype], torch.Tensor]
"""(shape, dtype) -> a CPU tensor for all items, in memory that other processes and a file can share."""

# index_select divides more elements than this among threads (GRAIN_SIZE in aten/src/ATen/Parallel.h).
_ONE_THREAD_ELEMENTS = 32_768
# Up to here threads bring little and can cost much: 64 rows of 3 kB took 22 to 80 us with two threads and 38 to 56 us
# with one on a quiet two-core machine, but 3,000 to 10,000 us against 56 us when the other core was in use (256 rows:
# 3,200 us and more against 230 to 670 us).
_ONE_THREAD_BYTES = 1 << 20

# Fewer numbers are no picture: as bytes they would save little.
_LEAST_PICTURE = 256


class Varies(Exception):  # noqa: N818 - reads as the sentence "varies"
    """An item is built otherwise than the first one."""


def _over_255(kept: torch.Tensor) -> torch.Tensor:
    """Bytes -> what `ToTensor` makes of them. By NumPy, which does it in this thread whatever the size."""
    numbers = torch.empty_like(kept, dtype=torch.float32)
    np.divide(kept.numpy(), 255, out=numbers.numpy(), dtype=np.float32)
    return numbers


def _as_bytes(numbers: torch.Tensor) -> torch.Tensor:
    """The bytes that become these very numbers; `Varies` if there are none."""
    kept = (numbers.detach() * 255).round_().to(torch.uint8)
    if not torch.equal(_over_255(kept).view(torch.int32), numbers.detach().view(torch.int32)):
        raise Varies
    return kept


class Column(ABC):
    """Holds N values of one kind in `self.store`, (N, ...) with the dimensions in the order of a batch's memory."""

    store: torch.Tensor
    item_bytes: int
    """Memory for one value."""

    _kept_dtype: ClassVar[torch.dtype | None] = None
    """Of the store, where it is another one than that of the values."""

    def __init__(self, sample: Any, like: torch.Tensor, num_items: int, allocate: Allocate) -> None:
        """`like`: a value, or what becomes of one in a batch: its shape, strides and dtype."""
        # Which order of dimensions a stack of such values comes out in (images held channels-last stay so) is
        # torch's to decide, so torch is asked.
        stacked = torch.stack([like, like]).stride()[1:]
        order = sorted(range(like.ndim), key=lambda dim: (-stacked[dim], dim))
        self._order = [0, *(1 + dim for dim in order)]
        self._inverse = [self._order.index(dim) for dim in range(like.ndim + 1)]
        self._straight = self._order == sorted(self._order)
        self._type = type(sample)
        self._shape, self._strides, self._dtype = tuple(like.shape), like.stride(), like.dtype
        # Normal tensors also when made inside of inference mode: those could not be written to outside of it.
        with torch.inference_mode(False):
            self.store = allocate((num_items, *(like.shape[dim] for dim in order)), self._kept_dtype or like.dtype)
        self._row_elements = like.numel()
        self.item_bytes = max(1, self._row_elements * self.store.element_size())
        self._array = as_array(self.store)

    @property
    def layout(self) -> str:
        """What the allocated bytes mean; equal layouts can share them."""
        kind = f"{type(self).__name__} {self._type.__name__}"
        return f"{kind} {self._dtype} {list(self._shape)} strides {list(self._strides)}"

    @abstractmethod
    def accepts(self, value: Any) -> bool:
        """True if a value is of this column's kind: type, dtype, shape and strides."""

    def plain(self, values: list[Any]) -> list[Any]:
        """These as they are kept; `Varies` if one is of another kind."""
        if not all(map(self.accepts, values)):
            raise Varies
        return values

    @abstractmethod
    def _stacked(self, values: list[Any]) -> torch.Tensor:
        """(B, ...) these values."""

    def put(self, index: torch.Tensor, values: list[Any]) -> None:
        """Keep copies of `values` at the (B,) positions `index`."""
        self._put_rows(index, self._stacked(values))

    def _put_rows(self, index: torch.Tensor, rows: torch.Tensor) -> None:
        # Through NumPy: torch's index_copy_ knows no float8.
        self._array[index.numpy()] = as_array(rows.detach().permute(self._order))

    def gather(self, index: torch.Tensor) -> torch.Tensor:
        """(B, ...) what `default_collate` makes of the values at these positions, in memory that nobody else holds."""
        rows = self._rows(index)
        return rows if self._straight else rows.permute(self._inverse)

    def _rows(self, index: torch.Tensor) -> torch.Tensor:
        """(B, ...) the values at these positions, in the order of the store's memory."""
        num_elements = index.numel() * self._row_elements
        if num_elements <= _ONE_THREAD_ELEMENTS or num_elements * self.store.element_size() > _ONE_THREAD_BYTES:
            return self.store.index_select(0, index)
        rows = torch.empty((index.numel(), *self.store.shape[1:]), dtype=self.store.dtype, device="cpu")
        # The positions are known to be there; with "raise", NumPy would copy twice.
        np.take(self._array, index.numpy(), axis=0, out=as_array(rows), mode="clip")
        return rows

    def kept_rows(self) -> tuple[torch.Tensor | None, tuple[int, ...]]:
        """(memory of all N values, order of dimensions): `gather` is rows of it in that order. None: it is not."""
        return self.store, tuple(self._inverse)

    def take(self, positions: list[int]) -> list[Any]:
        """Independent values, as they were put in, or as copies of them would be."""
        index = torch.tensor(positions, dtype=torch.int64, device="cpu")
        rows: list[Any] = list(cast(Any, torch.unbind_copy)(self.gather(index)))  # its annotation says None
        if not rows or rows[0].stride() == self._strides:
            return rows
        with torch.no_grad():
            strided = [torch.empty_strided(row.shape, self._strides, dtype=row.dtype, device="cpu") for row in rows]
            return [copy.copy_(row) for copy, row in zip(strided, rows, strict=True)]


class _TensorColumn(Column):
    """Tensors of one dtype, shape and strides, all of them plain, or all marked as the same by torchvision."""

    def __init__(self, sample: torch.Tensor, num_items: int, allocate: Allocate) -> None:
        plain = unmarked(sample)
        super().__init__(sample, torch.empty_like(plain), num_items, allocate)
        self._accepted = plain.stride(), self._strides

    def plain(self, values: list[Any]) -> list[Any]:
        if self._type is not torch.Tensor:
            if {*map(type, values)} != {self._type}:
                raise Varies
            values = [*map(unmarked, values)]
        return super().plain(values)

    def take(self, positions: list[int]) -> list[Any]:
        taken = super().take(positions)
        return taken if self._type is torch.Tensor else [value.as_subclass(self._type) for value in taken]

    def accepts(self, value: Any) -> bool:
        return (
            is_plain_tensor(value)
            and value.dtype == self._dtype
            and tuple(value.shape) == self._shape
            and value.stride() in self._accepted
        )

    def _stacked(self, values: list[Any]) -> torch.Tensor:
        with torch.no_grad():
            return torch.stack(values)


@final
class _PictureColumn(_TensorColumn):
    """float32 tensors of bytes over 255, as `ToTensor` makes them: kept as these bytes, a quarter of the memory.

    Natively they are gathered and divided in one pass, with the next rows asked for ahead: half of the time of NumPy's.
    So are they put, without a copy of all of them in between: 128 took 250 us less.
    """

    _kept_dtype = torch.uint8

    def __init__(self, sample: torch.Tensor, num_items: int, allocate: Allocate) -> None:
        super().__init__(sample, num_items, allocate)
        # A batch lies where one lay that nobody has any more: malloc gave fresh pages, 30 faults for 64 of 28 x 28.
        self._lend = None if core().module is None else core().module.float32.Lender().lend

    def _rows(self, index: torch.Tensor) -> torch.Tensor:
        native = extension().module
        if native is None:
            return _over_255(super()._rows(index))
        shape = index.numel(), *self.store.shape[1:]
        rows = torch.empty(shape, device="cpu", dtype=torch.float32) if self._lend is None else self._lend(shape)
        positions = index.contiguous()
        native.gather_over_255(
            self.store.data_ptr(), self._row_elements, positions.data_ptr(), len(positions), rows.data_ptr()
        )
        return rows

    def put(self, index: torch.Tensor, values: list[Any]) -> None:
        native = extension().module
        if native is not None and self._straight and all(value.is_contiguous() for value in values):
            rows = [value.data_ptr() for value in values]
            if not native.put_times_255(self.store.data_ptr(), self._row_elements, index.data_ptr(), rows):
                raise Varies
            return
        some = max(1, _ONE_THREAD_BYTES // (4 * self._row_elements))
        for start in range(0, len(values), some):
            part = slice(start, start + some)
            self._put_rows(index[part], _as_bytes(self._stacked(values[part])))

    def kept_rows(self) -> tuple[torch.Tensor | None, tuple[int, ...]]:
        return None, ()


@final
class _ArrayColumn(Column):
    """NumPy arrays of one class, dtype, shape and strides; a batch of them is a tensor."""

    def __init__(self, sample: Any, num_items: int, allocate: Allocate) -> None:
        if type(sample) is not np.ndarray or sample.dtype.kind not in "biufc" or not sample.dtype.isnative:
            raise CannotKeep(f"an item holds an array of {sample.dtype}, a {type(sample).__name__}")
        like = np.empty_like(sample)
        super().__init__(sample, _as_tensor(like), num_items, allocate)
        self._array_dtype, self._accepted = sample.dtype, (sample.strides, like.strides)
        self._like, self._writeable = like, sample.flags.writeable

    def accepts(self, value: Any) -> bool:
        return (
            type(value) is np.ndarray
            and value.dtype == self._array_dtype
            and value.shape == self._shape
            and value.strides in self._accepted
            and value.flags.writeable == self._writeable
        )

    def _stacked(self, values: list[Any]) -> torch.Tensor:
        return torch.from_numpy(np.stack(values))

    def take(self, positions: list[int]) -> list[Any]:
        rows, taken = self._array.transpose(self._inverse), [np.empty_like(self._like) for _ in positions]
        for made, position in zip(taken, positions, strict=True):
            made[...] = rows[position]
            made.flags.writeable = self._writeable
        return taken


@final
class _NumberColumn(Column):
    """Python's int, float or bool, or NumPy scalars of one type (exactly these types)."""

    _DTYPES = {int: np.int64, float: np.float64, bool: np.bool_}  # noqa: RUF012 - never changed

    def __init__(self, sample: Any, num_items: int, allocate: Allocate) -> None:
        dtype = self._DTYPES.get(type(sample))
        self._of_numpy = dtype is None
        super().__init__(sample, _as_tensor(np.empty((), dtype or sample.dtype)), num_items, allocate)

    def accepts(self, value: Any) -> bool:
        return type(value) is self._type and (self._type is not int or -(2**63) <= value < 2**63)

    def _stacked(self, values: list[Any]) -> torch.Tensor:
        return torch.from_numpy(np.array(values, self._array.dtype))

    def take(self, positions: list[int]) -> list[Any]:
        values = self._array[positions]
        return [self._type(value) for value in values] if self._of_numpy else list(values.tolist())


def _as_tensor(like: Any) -> torch.Tensor:
    """A NumPy array as what it is in a batch."""
    try:
        return torch.from_numpy(like)
    except TypeError as error:
        raise CannotKeep(f"an item holds a NumPy array or number of {like.dtype}") from error


def column_for(sample: Any, num_items: int, allocate: Allocate, *, as_bytes: bool) -> Column:
    """An empty column for values like `sample`; `CannotKeep` if there is none.

    Arguments:
        as_bytes: pictures may be kept so.
    """
    if is_plain_tensor(unmarked(sample)):
        small = as_bytes and _is_of_bytes(unmarked(sample))
        return (_PictureColumn if small else _TensorColumn)(sample, num_items, allocate)
    if isinstance(sample, np.ndarray):
        return _ArrayColumn(sample, num_items, allocate)
    if isinstance(sample, np.bool_ | np.number) or type(sample) in (int, float, bool):
        return _NumberColumn(sample, num_items, allocate)
    raise CannotKeep(f"an item holds a {type(sample).__name__}")


def _is_of_bytes(sample: torch.Tensor) -> bool:
    try:
        return sample.dtype == torch.float32 and sample.numel() >= _LEAST_PICTURE and len(_as_bytes(sample)) > 0
    except Varies:
        return False

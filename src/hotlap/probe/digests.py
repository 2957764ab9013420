"""What steps draw: batches, samples and random numbers -> digests, equal where these are."""

import contextlib
import random
import weakref
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import xxhash
from torch.multiprocessing.reductions import StorageWeakRef

from hotlap import accelerator
from hotlap.probe.sampling import sampled_columns

# Rows of fewer numbers may be equal by chance: times and angles.
_MIN_NUMBERS = 8
# As losses of torch's do by default (`ignore_index`).
_IGNORED, _LABELS = -100, {torch.int16, torch.int32, torch.int64}
# As many tell two samples apart.
_MOST_NUMBERS = 64


def paths(value: Any, keys: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """(keys that lead to it, leaf) of nested mappings, lists and tuples, in order."""
    if isinstance(value, torch.Tensor):  # most are, and to ask for a mapping takes long
        yield keys, value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from paths(part, (*keys, key))
    elif isinstance(value, list | tuple):
        for k, part in enumerate(value):
            yield from paths(part, (*keys, k))
    else:
        yield keys, value


def leaves(value: Any) -> Iterator[Any]:
    """Those of nested mappings, lists and tuples, in order."""
    return (leaf for _, leaf in paths(value))


def tensors(value: Any) -> list[torch.Tensor]:
    """Those among the leaves."""
    return [leaf for leaf in leaves(value) if isinstance(leaf, torch.Tensor)]


def num_samples(batch: Any) -> int | None:
    """Length of the first tensor in a batch; without one, of its first field (a tuple or mapping has fields), or of the
    list that it is; None when it has none of these."""
    for leaf in leaves(batch):
        if isinstance(leaf, torch.Tensor):
            # A nested tensor has no shape, but this size.
            return leaf.size(0) if leaf.dim() else 1
    if isinstance(batch, tuple) and batch:
        batch = batch[0]
    while isinstance(batch, Mapping) and batch:
        batch = next(iter(batch.values()))
    return len(batch) if isinstance(batch, list | tuple) or (isinstance(batch, np.ndarray) and batch.ndim) else None


class Digest:
    """Bytes of batches -> one short text a step, equal where batches are."""

    def __init__(self) -> None:
        self.fresh = Fresh()
        """Which of their tensors, each as a whole, had not come before."""
        self.rows = Rows()
        self._added: list[bytes] = []
        self._of_made: list[bytes] = []

    def add(self, batch: Any, *, is_made: Callable[[torch.Tensor], bool] | None = None) -> None:
        """Take in every tensor, array and plain value of a batch. `is_made`: it is what a module was called with; what
        that says of a tensor is true of a model's results, which are no part of a batch, and one that is there already
        is left out."""
        parts = list(leaves(batch))
        if is_made is not None:
            parts = [leaf for leaf in parts if not (isinstance(leaf, torch.Tensor) and is_made(leaf))]
        found = [(digest_of(leaf), isinstance(leaf, torch.Tensor)) for leaf in parts]
        whole = b"".join(told for told, _ in found)
        if not any(is_tensor for _, is_tensor in found) and tensors(batch):
            self._of_made += map(digest_of, leaves(batch))
        elif is_made is None or whole not in self._added:
            self._added.append(whole)
        else:
            return
        self.rows.add(batch)
        for told, is_tensor in found:
            if is_tensor:
                self.fresh.add([told])

    def take(self) -> str | None:
        """The digest of what was added since the last call, or of what models made of it; None if nothing was."""
        added, self._added, self._of_made = self._added or self._of_made, [], []
        return xxhash.xxh3_128_hexdigest(b"".join(added)) if added else None


class Rows:
    """Samples of batches -> one short text a step, equal where these are, in any order and any number of batches.

    A sample is what all tensors of a batch hold at one place of their first dimension: an input and its label. A loss
    that is called with a model's result and labels gives these to the batch before.
    """

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._sum, self._whole, self._any_alone = 0, set[bytes](), False
        self._open, self._num_tensors = list[bytes](), 0

    def add(self, batch: Any) -> None:
        """Take in the samples of a batch; what is no part of one of them is taken in as it is."""
        found = [leaf for leaf in leaves(batch) if not isinstance(leaf, torch.Tensor) or not leaf.requires_grad]
        first = next((leaf for leaf in leaves(batch) if isinstance(leaf, torch.Tensor)), None)
        if first is None or not first.requires_grad:
            self._close()
            self._open = [b""] * ((first is not None and num_samples(batch)) or 0)
        whole = []
        for leaf in found:
            if _has_rows(leaf, len(self._open)):
                kind, rows = str(leaf.dtype).encode(), _rows(leaf, len(self._open))
                told = (one + kind + row for one, row in zip(self._open, rows, strict=True))
                self._open = list(map(xxhash.xxh3_64_digest, told))
                self._num_tensors += 1
            else:
                whole.append(digest_of(leaf))
        self._whole.add(b"".join(whole))

    def _close(self) -> None:
        self._sum += sum(map(int.from_bytes, self._open))
        self._any_alone |= self._num_tensors == 1
        self._num_tensors = 0

    def take(self, *, alone: bool) -> str | None:
        """The digest of what was added since the last call; None if nothing was. `alone`: batches may be one tensor,
        without another one that must stay beside it."""
        self._close()
        told = f"{self._sum % 2**64:016x}{sorted(self._whole)}"
        known = self._sum and (alone or not self._any_alone)
        self._begin()
        return xxhash.xxh3_128_hexdigest(told.encode()) if known else None


def _has_rows(leaf: Any, num: int) -> bool:
    """A tensor of as many rows, or of a multiple (places of sequences)."""
    plain = isinstance(leaf, torch.Tensor) and not leaf.is_nested and leaf.layout == torch.strided
    return plain and bool(num and leaf.dim() and leaf.numel()) and len(leaf) % num == 0


def _rows(tensor: torch.Tensor, num: int) -> Iterator[bytes]:
    """(num,) what each holds, without zeros at its end (or targets that losses ignore): padding is as long as a batch's
    longest sample asks for."""
    plain = _peeked(tensor)
    plain = plain.masked_fill(plain == _IGNORED, 0) if plain.dtype in _LABELS else plain
    return (bytes(row).rstrip(b"\0") for row in bytes_of(plain).reshape(num, -1))


class Given:
    """What models are given to train on -> how much of it a step has (`Run.given`)."""

    def __init__(self) -> None:
        self._sizes: dict[bytes, tuple[int, int]] = {}
        self._made: set[StorageWeakRef] = set()
        self._made_rows: set[bytes] = set()
        self._changeable: dict[int, tuple[weakref.ref[torch.Tensor], int]] = {}
        self._made_before: set[StorageWeakRef] = set()

    def made(self, result: Any) -> None:
        """`result` of a model, which another one may be given: that is no data. (A reference keeps the address from
        being that of another tensor later in the step.)"""
        self._made.update(storages(result))
        for one in tensors(result):
            if type(one) is torch.Tensor and not one.is_meta:
                self._made_rows.update(filter(None, _told_rows(one)))
                if not one.is_inference():
                    self._changeable[id(one)] = weakref.ref(one), one._version

    def is_made(self, tensor: torch.Tensor) -> bool:
        """A model of this step has made it, or it lies in what one has made, or follows from parameters."""
        return tensor.grad_fn is not None or any(ref in self._made for ref in storages(tensor))

    def not_made(self, data: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The rows of these that are not, as they are, a model's of this step, changed in place since or not: real ones
        may lie beside its samples."""
        for address, (known, version) in self._changeable.items():
            if (one := known()) is not None and one._version != version:
                self._made_rows.update(filter(None, _told_rows(one)))
                self._changeable[address] = known, one._version
        kept = [row not in self._made_rows for row in _told_rows(data[0])] if data and self._made_rows else []
        if all(kept):
            return list(data)
        return [one[torch.tensor(kept, device=one.device)] for one in data] if any(kept) else []

    def is_state(self, tensor: torch.Tensor) -> bool:
        """A model has made it in this step or the one before: a state that is carried."""
        return any(ref in self._made or ref in self._made_before for ref in storages(tensor))

    def add(self, data: torch.Tensor, rows: Sequence[bytes]) -> None:
        """`rows`: digests of those of `data`. Who is given the same again has no more of it."""
        self._sizes[b"".join(rows)] = len(rows), data.numel()

    def take(self) -> tuple[int, int, int] | None:
        """(rows, numbers in them, most rows at once) since the last call; None if nothing was given."""
        sizes = self._sizes.values()
        self._sizes, self._made, self._made_before = {}, set(), self._made
        self._made_rows.clear()
        self._changeable.clear()
        if not sizes:
            return None
        rows, numbers = zip(*sizes, strict=True)
        return sum(rows), sum(numbers), max(rows)


def _told_rows(tensor: torch.Tensor) -> Iterator[bytes]:
    """Digests of some numbers of each row, the same in whatever type they are kept; empty ones where they are all the
    same, or few."""
    plain = tensor.layout == torch.strided and not tensor.is_nested and tensor.is_floating_point()
    if not plain or not tensor.dim() or tensor.numel() < _MIN_NUMBERS * len(tensor) or not len(tensor):
        return iter([b""] * (tensor.size(0) if tensor.dim() else 0))
    rows = sampled_columns(_peeked(tensor).detach().reshape(len(tensor), -1), _MOST_NUMBERS).float().cpu().numpy()
    return (xxhash.xxh3_64_digest(row.tobytes()) if (row != row[0]).any() else b"" for row in rows)


def storages(value: Any) -> Iterator[StorageWeakRef]:
    """Of the plain tensors among the leaves, those of subclasses of torch's own included."""
    plain = (leaf for leaf in tensors(value) if leaf.layout == torch.strided and not leaf.is_nested)
    for leaf in plain:
        with contextlib.suppress(NotImplementedError, RuntimeError):  # a wrapper may have no storage
            yield StorageWeakRef(leaf.untyped_storage())  # type: ignore[no-untyped-call]


class Fresh:
    """What is drawn -> how much of it is new, step by step.

    What comes again, and when, tells of a training's data in any form: scaled before or after the loader, drawn from it
    or by hand.
    """

    def __init__(self) -> None:
        self._known: set[bytes] = set()
        self._drawn: Counter[bytes] = Counter()

    def add(self, digests: Iterable[bytes]) -> None:
        """Of what is drawn at once. Who looks at the same things again draws them no second time."""
        self._drawn |= Counter(digests)

    def know(self, digests: Iterable[bytes]) -> None:
        """Of what would not be new, though it has not been drawn."""
        self._known.update(digests)

    def take(self) -> float | None:
        """Part of what was drawn since the last call that had never come before; None if nothing was."""
        if not self._drawn:
            return None
        # (Operators of sets and keys would look at all that is known.)
        share = sum(digest not in self._known for digest in self._drawn) / self._drawn.total()
        self._known.update(self._drawn)
        self._drawn.clear()
        return share


WITH_GRADIENTS, WITHOUT, ELSEWHERE = range(3)


class Draws:
    """Tells where torch's random numbers are drawn within a step (`Run.draws`), from its own generators or others."""

    def __init__(self) -> None:
        self.own: Callable[[], Mapping[int, torch.Generator]] = dict
        """Generators of the script's, by number."""
        self._states = self._look()
        self._found: list[bool | None] = [None, None, False]

    def look(self, place: int) -> None:
        """What was drawn since the last look was drawn in that place."""
        before, self._states = self._states, self._look()
        drawn = any(before.get(number, state) != state for number, state in self._states.items())
        self._found[place] = bool(self._found[place]) or drawn

    def _look(self) -> dict[int, bytes]:
        own = {number: bytes(bytes_of(one.get_state())) for number, one in self.own().items()}
        return {-1: _generators(), **own}

    def take(self) -> tuple[bool | None, ...]:
        """(3,) of the step that is over."""
        self.look(ELSEWHERE)
        found, self._found = tuple(self._found), [None, None, False]
        return found


def _generators() -> bytes:
    return b"".join(bytes_of(state) for state in (torch.get_rng_state(), *accelerator.random_states()))


def data_of(inputs: Any) -> list[torch.Tensor]:
    """The first tensor that a model is called with, where it is data (without a gradient), and those of fractions
    beside it that have as many rows. Integers there are masks and labels, padded as the longest sample asks for."""
    found = tensors(inputs)
    if not found or not _is_data(found[0]):
        return []
    first, *others = found
    alike = (one for one in others if one.is_floating_point() and _is_data(one) and len(one) == len(first))
    return [first, *alike]


def _is_data(tensor: torch.Tensor) -> bool:
    plain = not tensor.requires_grad and not tensor.is_nested and tensor.layout == torch.strided
    return plain and tensor.dim() > 0 and tensor.numel() > 0


def samples(data: Sequence[torch.Tensor]) -> Iterator[bytes]:
    """Digests of the rows of these, side by side."""
    rows = zip(*(_rows(one, len(one)) for one in data), strict=True)
    return (xxhash.xxh3_128_digest(b"".join(parts)) for parts in rows)


def tells_apart(tensor: torch.Tensor) -> bool:
    """Other rows are others: few fractions of a short type, such as times in bfloat16, come again by rounding."""
    is_short = tensor.is_floating_point() and tensor.element_size() < torch.float32.itemsize
    return not is_short or tensor.numel() >= _MIN_NUMBERS * len(tensor)


def digest_of(leaf: Any) -> bytes:
    """Of a leaf: of a tensor's or an array's type, shape and bytes; what a plain value is; of another thing its class
    alone."""
    if isinstance(leaf, np.ndarray) and not leaf.dtype.hasobject:
        return xxhash.xxh3_128_digest(f"{leaf.dtype}{leaf.shape}".encode() + leaf.tobytes())
    if not isinstance(leaf, torch.Tensor):
        return repr(leaf).encode() if is_plain(leaf) else type(leaf).__name__.encode()
    tensor = _peeked(leaf)
    if tensor.is_nested:
        return b"".join(digest_of(part) for part in tensor.unbind())
    told = xxhash.xxh3_128(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
    told.update(bytes_of(tensor))
    return told.digest()


def _peeked(tensor: torch.Tensor) -> torch.Tensor:
    # A batch of ours that knows of a copy on a device: after an ordinary use the script would not be given that copy.
    peek = getattr(type(tensor), "_hotlap_peek", None)
    return tensor if peek is None else peek(tensor)


def bytes_of(tensor: torch.Tensor) -> Any:
    """Of its elements, wherever they are: (B,) of a strided tensor."""
    flat = tensor.detach().resolve_conj().resolve_neg().cpu()
    if flat.layout != torch.strided:
        return repr(flat).encode()
    return flat.contiguous().reshape(-1).view(torch.uint8).numpy()


def is_plain(value: Any) -> bool:
    """One of Python's own values, which its `repr` tells whole."""
    return value is None or isinstance(value, str | bytes | int | float | complex)


def rng_digest() -> str:
    """Digest of the states of the three global generators, and of the devices' where they are in use."""
    state = xxhash.xxh3_128(_generators())
    _, words, gauss = random.getstate()
    state.update(array("Q", words).tobytes() + repr(gauss).encode())
    legacy: Any = np.random.get_state(legacy=False)
    state.update(legacy["state"]["key"].tobytes() + repr((legacy["state"]["pos"], legacy["gauss"])).encode())
    return state.hexdigest()

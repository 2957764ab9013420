"""What steps draw: batches, samples and random numbers -> digests, equal where these are."""

import hashlib
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from hotlap import accelerator


def leaves(value: Any) -> Iterator[Any]:
    """The leaves of nested lists, tuples and mappings, in order."""
    if isinstance(value, dict):
        for part in value.values():
            yield from leaves(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from leaves(part)
    else:
        yield value


def num_samples(batch: Any) -> int | None:
    """Length of the first tensor (or list of leaves) in a batch; None when it has none."""
    for leaf in leaves(batch):
        if isinstance(leaf, torch.Tensor):
            # A nested tensor has no shape, but this size.
            return leaf.size(0) if leaf.dim() else 1
    return len(batch) if isinstance(batch, list | tuple | dict) else None


class Digest:
    """Bytes of batches -> one short text a step, equal where batches are."""

    def __init__(self) -> None:
        self.fresh = Fresh()
        """Which of their tensors, each as a whole, had not come before."""
        self._begin()

    def _begin(self) -> None:
        self._hash = hashlib.blake2b(digest_size=12)
        self._used = False

    def add(self, batch: Any) -> None:
        """Take in every tensor, array and plain value of a batch."""
        self._used = True
        for leaf in leaves(batch):
            told = _told(leaf)
            self._hash.update(told)
            if isinstance(leaf, torch.Tensor):
                self.fresh.add([told])

    def take(self) -> str | None:
        """The digest of what was added since the last call; None if nothing was."""
        if not self._used:
            return None
        whole = self._hash.hexdigest()
        self._begin()
        return whole


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

    def take(self) -> float | None:
        """Part of what was drawn since the last call that had never come before; None if nothing was."""
        if not self._drawn:
            return None
        share = len(self._drawn.keys() - self._known) / self._drawn.total()
        self._known |= self._drawn.keys()
        self._drawn.clear()
        return share


WITH_GRADIENTS, WITHOUT, ELSEWHERE = range(3)


class Draws:
    """Tells where torch's random numbers are drawn within a step (`Run.draws`)."""

    def __init__(self) -> None:
        self._state = _generators()
        self._found: list[bool | None] = [None, None, False]

    def look(self, place: int) -> None:
        """What was drawn since the last look was drawn in that place."""
        before, self._state = self._state, _generators()
        self._found[place] = bool(self._found[place]) or before != self._state

    def take(self) -> tuple[bool | None, ...]:
        """(3,) of the step that is over."""
        self.look(ELSEWHERE)
        found, self._found = tuple(self._found), [None, None, False]
        return found


def _generators() -> bytes:
    return b"".join(_bytes(state.cpu()) for state in (torch.get_rng_state(), *accelerator.random_states()))


def samples(inputs: Any) -> Iterator[bytes]:
    """Digests of the rows of the first tensor that a model is called with, where it is data: without a gradient."""
    first = next((leaf for leaf in leaves(inputs) if isinstance(leaf, torch.Tensor)), None)
    if first is None or first.requires_grad or first.is_nested or first.layout != torch.strided:
        return
    if first.dim() and first.numel():
        rows = _bytes(_peeked(first).detach().resolve_conj().resolve_neg().cpu()).reshape(len(first), -1)
        for row in rows:
            # Padding is as long as the longest sample of a batch asks for.
            yield hashlib.blake2b(bytes(row).rstrip(b"\0"), digest_size=12).digest()


def _told(leaf: Any) -> bytes:
    """What is known of a leaf."""
    if not isinstance(leaf, torch.Tensor):
        return repr(leaf).encode() if _is_plain(leaf) else type(leaf).__name__.encode()
    tensor = _peeked(leaf)
    if tensor.is_nested:
        return b"".join(_told(part) for part in tensor.unbind())
    return _digest_of(tensor.detach().resolve_conj().resolve_neg().cpu())


def _digest_of(flat: torch.Tensor) -> bytes:
    told = hashlib.blake2b(f"{flat.dtype}{tuple(flat.shape)}".encode(), digest_size=12)
    told.update(_bytes(flat))
    return told.digest()


def _peeked(tensor: torch.Tensor) -> torch.Tensor:
    # A batch of ours that knows of a copy on a device: after an ordinary use the script would not be given that copy.
    peek = getattr(type(tensor), "_hotlap_peek", None)
    return tensor if peek is None else peek(tensor)


def _bytes(flat: torch.Tensor) -> Any:
    if flat.layout != torch.strided:
        return repr(flat).encode()
    return flat.contiguous().reshape(-1).view(torch.uint8).numpy()


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | bytes | int | float | complex)


def rng_digest() -> str:
    """Digest of the states of the three global generators, and of the devices' where they are in use."""
    state = hashlib.blake2b(digest_size=12)
    state.update(_generators())
    state.update(str(random.getstate()).encode())
    if "numpy" in sys.modules:
        import numpy as np

        legacy: Any = np.random.get_state(legacy=False)
        state.update(legacy["state"]["key"].tobytes() + repr((legacy["state"]["pos"], legacy["gauss"])).encode())
    return state.hexdigest()

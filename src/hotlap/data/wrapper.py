"""A data set in another's place: the other one to all who look; and what it has to say to the user."""

import itertools
import sys
import warnings
from collections.abc import Iterator
from typing import Any, ClassVar, TypeVar, final

from torch.utils.data import Dataset, IterableDataset

from hotlap import at_work
from hotlap.data.loader.fetch import fetch
from hotlap.errors import UserError


def warn(text: str) -> None:
    """Warn, as if the first line that is neither ours nor torch's had done so."""
    level = 2
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("hotlap", "torch"):
        frame = frame.f_back
        level += 1
    warnings.warn(f"hotlap: {text}", RuntimeWarning, stacklevel=level)


class DatasetWrapper(Dataset[Any]):
    """Wraps a map-style data set. Names that begin with `_hotlap` are its own, all others the wrapped one's."""

    _hotlap_dataset: Any
    """The wrapped one."""
    _hotlap_function: ClassVar[str] = ""
    """What makes it: "cached"."""

    _hotlap_note: str | None = None

    def __init__(self, dataset: Any) -> None:
        self.__dict__["_hotlap_dataset"] = dataset

    @property
    def note(self) -> str | None:
        """One sentence if it is not at work now: what was seen."""
        return self._hotlap_note

    def _hotlap_idle(self) -> str | None:
        """Why it is not at work; "" if it was not asked for anything yet, None if it is at work."""
        return self.note

    def _hotlap_settled(self) -> bool:
        """Its batches come as they will from now on."""
        return True

    def _hotlap_changed(self, name: str) -> None:
        """The script sets or deletes this attribute."""

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The wrapped data set's: a script that asks `isinstance(loader.dataset, MNIST)` is answered as before."""
        wrapped = self.__dict__.get("_hotlap_dataset")
        return type(self) if wrapped is None else wrapped.__class__

    def _hotlap_begin_epoch(self) -> None:
        """A pass over it begins: whoever keeps something looks whether it still holds."""
        inner = self._hotlap_dataset
        if isinstance(inner, DatasetWrapper):
            inner._hotlap_begin_epoch()

    def __getitem__(self, index: Any) -> Any:
        return self._hotlap_dataset[index]

    def _hotlap_fetch(self, indices: Any, *, whole: bool) -> Any:
        """Items, as a DataLoader fetches them; `whole`: or their `Batch`."""
        return fetch(self._hotlap_dataset, indices)

    def __getitems__(self, indices: Any) -> Any:
        return self._hotlap_fetch(indices, whole=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._hotlap_dataset,)

    def __len__(self) -> int:
        return len(self._hotlap_dataset)

    def __iter__(self) -> Iterator[Any]:
        self._hotlap_begin_epoch()
        for position in itertools.count():
            try:
                item = self[position]
            except IndexError:
                return
            yield item

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_hotlap"):
            raise AttributeError(name)
        return getattr(self._hotlap_dataset, name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._hotlap_changed(name)
        setattr(self._hotlap_dataset, name, value)

    def __delattr__(self, name: str) -> None:
        self._hotlap_changed(name)
        delattr(self._hotlap_dataset, name)


def check(kind: type[DatasetWrapper], dataset: Any) -> None:
    """Say so if a `kind` cannot stand around what its function is given.

    Raises:
        UserError: it has no items to look up, or another function of ours has been there.
    """
    function = kind._hotlap_function
    if not isinstance(dataset, DatasetWrapper):
        if isinstance(dataset, IterableDataset) or not hasattr(type(dataset), "__getitem__"):
            raise UserError(
                f"{function}() got a {type(dataset).__name__}, which has no items to look up by number. "
                "Give it a map-style data set: one with __getitem__ and __len__."
            )
        return
    other = type(dataset)._hotlap_function or type(dataset).__name__
    raise UserError(
        f"{function}() got what {other}() returned, but a data set is served by one of the two. Leave out "
        f"{function}(), or {other}()."
    )


@final
class WholeBatches(DatasetWrapper):
    """What the fetchers of our own loaders read, of which `collated` puts items together."""

    def __getitems__(self, indices: Any) -> Any:
        return self._hotlap_dataset._hotlap_fetch(indices, whole=True)


Made = TypeVar("Made", bound=DatasetWrapper)


def put_in_place(made: Made) -> Made:
    """From now on loaders know what to do with it, and the record what it does."""
    from hotlap.data.loader.patch import patch_loaders

    patch_loaders()
    at_work.register(type(made)._hotlap_function, made)
    return made


def unwrapped(dataset: Any) -> Any:
    """The script's own data set behind all that stands in for it."""
    while isinstance(dataset, DatasetWrapper):
        dataset = dataset._hotlap_dataset
    return dataset

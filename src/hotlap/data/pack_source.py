"""The data set that is packed: its items, each with a look at the random generators, and whose fault an error is."""

import traceback
from collections.abc import Callable
from typing import Any, TypeVar, final

from torch.utils.data import IterableDataset

from hotlap.data.determinism import Streams, Watch
from hotlap.data.items import Unsupported
from hotlap.errors import ScriptFailed, UserError

Made = TypeVar("Made")


@final
class Source:
    """The data set that is packed: its items, each with a look at the random generators."""

    def __init__(self, dataset: Any, name: str) -> None:
        if isinstance(dataset, IterableDataset | type) or not hasattr(dataset, "__getitem__"):
            raise UserError(
                f"{name} gives a {_type_of(dataset)}, which has no items to look up by number. "
                "Give a map-style data set: one with __getitem__ and __len__."
            )
        self.name = name
        self._dataset = dataset
        self._streams = Streams()
        self.num_items = self._called("the length", lambda: len(dataset))
        if not self.num_items:
            raise UserError(f"{name} has no items, so there is nothing to pack.")
        # A generator may be made with the first item, so the data set is looked through when there was one.
        self.item(0)
        self._streams = Streams(Watch(dataset).streams)

    def item(self, number: int) -> Any:
        """Item `number`, which must not have drawn a random number.

        Raises:
            UserError: it did.
            ScriptFailed: the data set raised.
        """
        before = self._streams.states()
        item = self.plain(number)
        drawn = self._streams.drawn(before)
        if drawn is not None:
            raise UserError(
                f"Item {number} of {self.name} draws random numbers (from {drawn}), so it has no one form that could "
                "be packed. Pack the data set without its random transforms, and apply those to what "
                "hotlap.data.packed gives."
            )
        return item

    def plain(self, number: int) -> Any:
        """Item `number`, without a look at anything.

        Raises:
            ScriptFailed: the data set raised.
        """
        return self._called(f"item {number}", lambda: self._dataset[number])

    def made(self, number: int, function: Callable[[Any], Made]) -> Made:
        """What the function makes of item `number`.

        Raises:
            UserError: the item holds what cannot be kept.
        """
        item = self.item(number)
        try:
            return function(item)
        except Unsupported as unsupported:
            raise UserError(f"Item {number} of {self.name} cannot be packed: {unsupported}.") from None

    def _called(self, what: str, function: Callable[[], Any]) -> Any:
        try:
            return function()
        except Exception as error:
            said = "".join(traceback.format_exception(error))
            problem = f"{what} of {self.name} cannot be computed ({type(error).__name__}: {error})"
            raise ScriptFailed(f"{problem[0].upper()}{problem[1:]}. Nothing was packed.", output=said) from error


def spread(num_items: int, num_wanted: int) -> list[int]:
    """Numbers of at most so many items, evenly spaced, the first and the last among them."""
    if num_wanted >= num_items:
        return list(range(num_items))
    return sorted({round(place * (num_items - 1) / max(1, num_wanted - 1)) for place in range(num_wanted)})


def _type_of(value: Any) -> str:
    return f"class ({value.__qualname__})" if isinstance(value, type) else type(value).__name__

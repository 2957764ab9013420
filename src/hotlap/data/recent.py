"""What was made of data sets, for those used last: a script may make a new one each epoch, and each holds memory."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, TypeVar, final

# A script that makes new loaders each epoch over the same few data sets finds what was made of them again.
MAX_HELD = 8

Made = TypeVar("Made")


@final
class Recent(Generic[Made]):
    """Owner -> what was made of it, for the owners asked for last."""

    def __init__(self) -> None:
        # With the owner, so that its id stays its own.
        self._held: OrderedDict[int, tuple[Any, Made]] = OrderedDict()

    def get(self, owner: Any, make: Callable[[Any], Made]) -> Made:
        """What was made of it, or is now."""
        known = self._held.pop(id(owner), None)
        if known is None:
            known = (owner, make(owner))
        self._held[id(owner)] = known
        if len(self._held) > MAX_HELD:
            self._held.popitem(last=False)
        return known[1]

    def values(self) -> list[Made]:
        """All that is held, the one used last at the end."""
        return [made for _, made in self._held.values()]

"""What each epoch goes through: the same again, or something made for it alone."""

import weakref
from typing import Any


class Epochs:
    """Does the script make another data set (or loader) for each epoch? Of all that belong to one place in the source.

    A k-fold makes another data set for each model, and goes through each of them many times: these are not made anew
    for an epoch. In the first part of a training, as long as none was dropped, nothing is said to be made anew.
    """

    def __init__(self) -> None:
        self._alive: dict[int, tuple[weakref.ref[Any], int]] = {}
        """Address -> what is there, and how many epochs it began."""
        self._num_single = self._num_repeated = 0
        """Epochs of what was dropped after one, and of what was gone through more than once."""

    @property
    def anew(self) -> bool:
        """Most epochs went through something that was made for them alone, and dropped behind them."""
        return self._num_single > self._num_repeated

    def begins(self, made: Any) -> None:
        """An epoch goes through `made`."""
        try:
            reference = weakref.ref(made)
        except TypeError:  # a list, say: nobody learns when it is dropped
            return
        for address in [address for address, (known, _) in self._alive.items() if known() is None]:
            self._num_single += self._alive.pop(address)[1] == 1
        _, num_begun = self._alive.get(id(made), (reference, 0))
        self._alive[id(made)] = reference, num_begun + 1
        if num_begun:
            self._num_repeated += 2 if num_begun == 1 else 1  # with the first, which might have been the only one

"""What was made of data sets is held for those used last, and no longer."""

import gc
import weakref

from hotlap.data.recent import MAX_HELD, Recent


class Owner:
    """Can be referred to weakly."""


def test_the_same_owner_gets_the_same_and_old_ones_are_let_go() -> None:
    held: Recent[list[object]] = Recent()
    first = Owner()
    made = held.get(first, lambda owner: [owner])
    assert held.get(first, lambda owner: []) is made
    gone = weakref.ref(first)
    del first, made
    for _ in range(MAX_HELD):
        held.get(Owner(), lambda owner: [owner])
    gc.collect()
    assert gone() is None and len(held.values()) == MAX_HELD

"""What forked processes note about kept items, all of them see; entries that several put at once do not overlap."""

import os
import threading
import time
from typing import Any

import pytest
import torch

from hotlap.data.item.codec import CannotKeep
from hotlap.data.item_cache.shared_memory import Progress
from hotlap.data.item_cache.store import RecordStore


def in_a_fork(progress: Progress) -> None:
    child = os.fork()
    if child == 0:
        progress.present[3] = True
        progress.refuse("an item draws \u221e numbers")
        os._exit(0)
    os.waitpid(child, 0)


def test_what_a_fork_notes_is_seen_here() -> None:
    progress = Progress(5)
    assert progress.refusal is None
    in_a_fork(progress)
    assert progress.present.tolist() == [False, False, False, True, False]
    assert progress.refusal == "an item draws \u221e numbers"


def test_the_first_reason_stays_and_none_is_too_long() -> None:
    progress = Progress(0)
    progress.refuse("first " * 1000)
    progress.refuse("second")
    assert progress.refusal is not None and progress.refusal.startswith("first first") and len(progress.refusal) < 1100


def test_all_may_be_there_from_the_begin() -> None:
    assert Progress(3, full=True).present.all()


class Slow(int):
    """A limit that takes its time to be compared, so that threads meet between reading and writing what is taken."""

    def __lt__(self, other: Any) -> bool:
        time.sleep(2e-4)
        return int(self) < int(other)


def test_threads_and_a_copy_of_the_process_take_room_one_at_a_time() -> None:
    each, num_threads = 10, 3
    num_items = 2 * num_threads * each
    room = RecordStore(num_items, 1 << 20)
    room.limit_bytes = Slow(1 << 20)

    def fill(first: int) -> None:
        for place in range(first, first + each):
            assert room.put([place], [place.to_bytes(8, "little") * 100])

    child = os.fork()
    try:
        start = 0 if child else num_threads
        threads = [threading.Thread(target=fill, args=((start + number) * each,)) for number in range(num_threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        if not child:
            os._exit(0)
    os.waitpid(child, 0)
    assert room.take(range(num_items)) == [place.to_bytes(8, "little") * 100 for place in range(num_items)]


def test_items_are_kept_until_there_is_no_room() -> None:
    room = RecordStore(4, 4096, halves=True)
    item = [b"one", b"", torch.arange(100)]
    assert room.put([1, 2], [item, b"y" * 5000]) == [1] and room.holds(1, item)
    (taken,) = room.take([1])
    taken[2].zero_()
    assert room.holds(1, item) and not room.holds(1, taken)
    with pytest.raises(CannotKeep, match="set aside"):
        RecordStore(4, 4096).put([2], [b"y" * 5000])

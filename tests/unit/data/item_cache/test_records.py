"""Entries that several threads and processes put into one bin at once do not overlap."""

import os
import threading
import time
from typing import Any

import pytest

from hotlap.data.item_cache.records import SharedRecords


class Slow(int):
    """A limit that takes its time to be compared, so that threads meet between reading and writing what is taken."""

    def __lt__(self, other: Any) -> bool:
        time.sleep(2e-4)
        return int(self) < int(other)


def test_threads_and_a_copy_of_the_process_take_room_one_at_a_time() -> None:
    each, num_threads = 10, 3
    room = SharedRecords(2 * num_threads * each, 1 << 20)
    room.limit_bytes = Slow(1 << 20)

    def fill(first: int) -> None:
        for place in range(first, first + each):
            assert room.put(place, [place.to_bytes(8, "little") * 100])

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
    for place in range(room.num_places):
        parts = room.get(place)
        assert parts is not None and bytes(parts[0]) == place.to_bytes(8, "little") * 100


def test_at_the_end_of_the_interpreter_no_error_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = SharedRecords(1, 1000)
    with monkeypatch.context() as end:
        end.setattr("hotlap.data.item_cache.records.os", None)  # as Python leaves a module then
        kept.__del__()
    assert kept.put(0, [b"x"]), "it is still there"

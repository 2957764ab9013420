"""A copy of the process answers, and leaves what is open here as it was."""

import gc
import os
import threading
import time
from pathlib import Path

from hotlap.data.checks.forked import cannot_fork, in_a_copy


def wait_for(path: Path) -> None:
    while not path.exists():
        time.sleep(0.001)


def test_what_a_copy_reads_on_is_put_back_and_what_is_written_is_not(tmp_path: Path) -> None:
    (tmp_path / "items").write_bytes(b"0123456789")
    with (tmp_path / "items").open("rb", buffering=0) as items, (tmp_path / "log").open("w+b", buffering=0) as log:
        items.read(2)
        assert cannot_fork(waits=True) is None
        log.write(b"ab")
        assert str(tmp_path / "log") in (cannot_fork(waits=True) or "")
        assert in_a_copy(lambda: (items.read(3), log.write(b"cd"))) == (b"234", 2)
        assert (items.tell(), log.tell()) == (2, 4)
        log.write(b"ef")
    assert (tmp_path / "log").read_bytes() == b"abcdef"


def test_a_file_that_another_thread_closes_meanwhile_is_no_error(tmp_path: Path) -> None:
    begun, closed = tmp_path / "begun", tmp_path / "closed"
    (tmp_path / "items").write_bytes(b"0123456789")
    items = (tmp_path / "items").open("rb", buffering=0)

    def close() -> None:
        wait_for(begun)
        items.close()
        closed.touch()

    def answer() -> int:
        begun.touch()
        wait_for(closed)
        return 7

    thread = threading.Thread(target=close)
    thread.start()
    assert in_a_copy(answer) == 7
    thread.join()


def test_what_is_garbage_here_does_not_end_in_a_copy_too(tmp_path: Path) -> None:
    class Removes:
        """Part of a circle of references, as a folder that is removed with its owner."""

        def __init__(self) -> None:
            self.own = self

        def __del__(self) -> None:
            (tmp_path / str(os.getpid())).touch()

    gc.collect()
    gc.disable()
    try:
        Removes()
        in_a_copy(gc.collect)
    finally:
        gc.enable()
    gc.collect()
    assert [path.name for path in tmp_path.iterdir()] == [str(os.getpid())]

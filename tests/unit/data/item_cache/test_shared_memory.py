"""What forked processes note about kept items, all of them see; the first reason to refuse them stays."""

import os

from hotlap.data.item_cache.shared_memory import Progress


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

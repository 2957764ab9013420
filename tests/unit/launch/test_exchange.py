"""Buckets as several processes saw them: what the link took, what was hidden, and who came late."""

from dataclasses import replace

import pytest

from hotlap.launch.ranks import exchanged
from hotlap.record import Bucket, BucketPass, RankLog


def log(rank: int, *passes: list[tuple[float, float]], host: str = "here", first: int = 10) -> RankLog:
    """Passes of (ready, back) in steps that follow each other."""
    return RankLog(
        rank=rank,
        host=host,
        passes=tuple(
            BucketPass(
                step_index=first + at,
                end=buckets[-1][1],
                buckets=tuple(Bucket(ready=r, back=b, num_bytes=1000) for r, b in buckets),
            )
            for at, buckets in enumerate(passes)
        ),
    )


def test_a_bucket_is_on_the_link_from_when_the_last_process_has_it_until_it_is_back() -> None:
    """Ready at 1 and 2 s in one, at 1.5 and 4 s in the other; each takes a second on the link."""
    found = exchanged([log(0, [(1.0, 2.5), (2.0, 5.0)]), log(1, [(1.5, 2.6), (4.0, 5.1)])])
    assert found is not None
    assert (found.buckets, found.num_bytes) == (2.0, 2000.0)
    assert found.link_s == pytest.approx(2.0), "one process was told late that a bucket is back"
    assert found.exposed_s == pytest.approx(1.0), "the first one passes beside the computation of the second"


def test_buckets_queue_on_the_link() -> None:
    ready = [(1.0, 3.0), (1.1, 5.0), (1.2, 7.0)]
    found = exchanged([log(0, ready), log(1, ready)])
    assert found is not None
    assert found.link_s == pytest.approx(6.0)
    assert found.exposed_s == pytest.approx(5.8)


def test_steps_that_only_some_saw_or_saw_in_part_are_left_out() -> None:
    one, other = (
        log(0, [(1.0, 2.0)], [(3.0, 3.5)], [(5.0, 6.0)]),
        log(1, [(3.0, 3.5)], [(5.0, 6.0), (5.5, 7.0)], first=11),
    )
    found = exchanged([one, other])
    assert found is not None
    assert found.link_s == pytest.approx(0.5)


def test_nothing_is_said_of_clocks_that_differ_or_where_nothing_was_seen() -> None:
    seen = log(0, [(1.0, 2.0)])
    assert exchanged([seen, replace(seen, rank=1, host="there")]) is None
    assert exchanged([seen, log(1)]) is None
    assert exchanged([seen]) is None

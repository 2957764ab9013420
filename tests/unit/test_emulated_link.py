"""The emulated link: a mean over all processes that takes its time, on a lane of its own."""

import time
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist

from hotlap.lab.scripts.emulated_link import SPEEDS, EmulatedLink, Speed
from tests.ranks_as_threads import RANKS, in_own_process, on_each

pytestmark = [
    pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="needs gloo"),
    in_own_process,
]


def bucket(value: float) -> Any:
    buffer = torch.full((1000,), value)  # 4000 bytes
    return SimpleNamespace(buffer=lambda: buffer)


def values(future: torch.futures.Future[torch.Tensor]) -> list[float]:
    return sorted(set(future.wait().tolist()))


def test_seconds_are_the_latency_and_the_bytes_over_the_bandwidth() -> None:
    assert Speed(0.5, 1000.0).seconds(4000) == 4.5
    assert SPEEDS["1-gbit"].seconds(125e6) == pytest.approx(1.0, rel=1e-3)
    times = [SPEEDS[name].seconds(25 * 2**20) for name in ("1-gbit", "10-gbit", "100-gbit", "pcie")]
    assert times == sorted(times, reverse=True)


def test_buckets_wait_for_each_other_and_for_the_last_process_but_not_in_the_way_of_the_sender() -> None:
    """Two of 0.2 s each; the last process sends its own when all others have sent theirs."""
    links = [EmulatedLink(Speed(0.1, 40_000.0)) for _ in range(RANKS)]
    sent = [Event() for _ in range(RANKS)]

    def send(group: Any, rank: int) -> tuple[float, list[list[float]], float]:
        for other in sent[:-1] if rank == RANKS - 1 else ():
            assert other.wait(300)
        begun = time.perf_counter()
        futures = [links[rank].hook(group, bucket(rank + one)) for one in (0.0, 10.0)]
        sent[rank].set()
        return begun, [values(future) for future in futures], time.perf_counter()

    found = on_each(send)
    last_sent = max(begun for begun, _, _ in found)
    for _, means, end in found:
        assert means == [[pytest.approx(1.0)], [pytest.approx(11.0)]]
        assert end - last_sent >= 0.4
    assert [one.busy_s for one in links] == [pytest.approx(0.4)] * RANKS


def test_without_a_speed_it_is_a_mean_over_the_processes_and_no_more() -> None:
    links = [EmulatedLink(None) for _ in range(RANKS)]
    found = on_each(lambda group, rank: values(links[rank].hook(group, bucket(float(rank)))))
    assert found == [[pytest.approx(1.0)]] * RANKS
    assert [one.busy_s for one in links] == [0.0] * RANKS

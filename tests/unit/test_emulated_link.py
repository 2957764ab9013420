"""The emulated link: sums over all processes that take their time, on a lane of their own."""

import time
from threading import Event
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.nn.parallel import DistributedDataParallel

from tests.benchmark_files import benchmark
from tests.ranks_as_threads import RANKS, in_own_process, on_each

emulated_link = benchmark("ranks/scripts/emulated_link.py")
SPEEDS, EmulatedLink, Speed = emulated_link.SPEEDS, emulated_link.EmulatedLink, emulated_link.Speed

pytestmark = [
    pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="needs gloo"),
    in_own_process,
]


def bucket(value: float) -> list[torch.Tensor]:
    return [torch.full((1000,), value)]  # 4000 bytes


def values(work: dist.Work) -> list[float]:
    (buffer,) = work.get_future().wait()
    return sorted(set(buffer.tolist()))


def test_seconds_are_the_latency_and_the_bytes_over_the_bandwidth() -> None:
    assert Speed(0.5, 1000.0).seconds(4000) == 4.5
    assert SPEEDS["1-gbit"].seconds(125e6) == pytest.approx(1.0, rel=1e-3)
    times = [SPEEDS[name].seconds(25 * 2**20) for name in ("1-gbit", "10-gbit", "100-gbit", "pcie")]
    assert times == sorted(times, reverse=True)


def test_buckets_wait_for_each_other_and_for_the_last_process_but_not_in_the_way_of_the_sender() -> None:
    """Two of 0.2 s each; the last process sends its own when all others have sent theirs."""
    sent = [Event() for _ in range(RANKS)]

    def send(group: Any, rank: int) -> tuple[float, list[list[float]], float, float]:
        link = EmulatedLink(Speed(0.1, 40_000.0), group)
        for other in sent[:-1] if rank == RANKS - 1 else ():
            assert other.wait(300)
        begun = time.perf_counter()
        works = [link.allreduce(bucket(rank + one)) for one in (0.0, 10.0)]
        sent[rank].set()
        return begun, [values(work) for work in works], time.perf_counter(), link.busy_s

    found = on_each(send)
    last_sent = max(begun for begun, *_ in found)
    for _, sums, end, busy_s in found:
        assert sums == [[3.0], [33.0]]
        assert end - last_sent >= 0.4
        assert busy_s == pytest.approx(0.4)


def test_a_model_trains_over_it_as_without_it_and_half_of_the_bytes_take_half_of_the_time() -> None:
    def parameters(group: Any, speed: Any, *, half: bool = False) -> tuple[list[float], float]:
        link = EmulatedLink(speed, group) if speed is not None else None
        numbers = torch.Generator().manual_seed(group.rank())
        layer = nn.Linear(1000, 1, bias=False)
        nn.init.ones_(layer.weight)
        model = DistributedDataParallel(layer, process_group=link or group)
        if half:
            model.register_comm_hook(model.process_group, fp16_compress_hook)
        model(torch.randn(4, 1000, generator=numbers)).square().mean().backward()
        assert layer.weight.grad is not None
        return layer.weight.grad.flatten().tolist(), link.busy_s if link is not None else 0.0

    speed = Speed(0.0, 100_000.0)
    plain = on_each(lambda group, _: parameters(group, None))
    over = on_each(lambda group, _: parameters(group, speed))
    halved = on_each(lambda group, _: parameters(group, speed, half=True))
    assert [gradient for gradient, _ in over] == [gradient for gradient, _ in plain]
    assert [gradient for gradient, _ in halved] == [pytest.approx(plain[0][0], abs=0.1)] * RANKS
    assert [busy_s for _, busy_s in over] == [pytest.approx(0.04)] * RANKS
    assert [busy_s for _, busy_s in halved] == [pytest.approx(0.02)] * RANKS


def test_without_a_speed_it_is_a_sum_over_the_processes_and_no_more() -> None:
    def send(group: Any, rank: int) -> tuple[list[float], float]:
        link = EmulatedLink(None, group)
        return values(link.allreduce(bucket(float(rank)))), link.busy_s

    assert on_each(send) == [([3.0], 0.0)] * RANKS

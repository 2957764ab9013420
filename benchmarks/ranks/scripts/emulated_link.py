"""A network link that everybody has: gloo on one machine, slowed down to the time that a link of given speed takes."""

import queue
import threading
import time
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _create_work_from_future  # type: ignore[attr-defined]  # torch's stub lacks it


@dataclass(frozen=True, slots=True)
class Speed:
    """Of a link: seconds for a bucket are `latency_s + num_bytes / bytes_per_s`."""

    latency_s: float
    bytes_per_s: float

    def seconds(self, num_bytes: float) -> float:
        """What one bucket takes."""
        return self.latency_s + num_bytes / self.bytes_per_s


# Latencies: of TCP within a rack, of RDMA, and of a collective of NCCL between two cards, to one digit.
SPEEDS = {
    "1-gbit": Speed(5e-5, 1e9 / 8),
    "10-gbit": Speed(3e-5, 1e10 / 8),
    "100-gbit": Speed(1e-5, 1e11 / 8),
    "pcie": Speed(2e-5, 1.6e10),
}


class EmulatedLink(dist.ProcessGroup):
    """A process group of gloo over a link: `DistributedDataParallel(model, process_group=EmulatedLink(speed))`.

    It sums up as the group within does. A sum (DDP makes one for each bucket of gradients) is back when that is done,
    and not before its time on the link is over: that begins when the last process has sent it and the one before it is
    through. It passes on a thread, beside the backward pass. Truth is the same in all processes, which must share one
    clock (one host), up to scheduling. All other collectives are gloo's own.
    """

    def __init__(self, speed: Speed | None, group: dist.ProcessGroup | None = None) -> None:
        """`group`: within; None: of all processes that there are."""
        within = group or dist.group.WORLD
        assert within is not None, "a process group was made"
        super().__init__(within.rank(), within.size())  # type: ignore[call-arg]  # torch's stub has one of two
        gloo, cpu = dist.ProcessGroup.BackendType.GLOO, torch.device("cpu")
        self._register_backend(cpu, gloo, within._get_backend(cpu))
        self._set_default_backend(gloo)
        self.speed = speed
        """None: as fast as gloo is. May change between two steps, at the same step in all processes."""
        self.busy_s = 0.0
        """Seconds that sums have taken on the link so far, those that still wait for it included."""
        self._within = within
        self._free_at = 0.0
        self._lane: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
        threading.Thread(target=self._serve, daemon=True).start()

    def allreduce(self, tensors: list[torch.Tensor], opts: dist.AllreduceOptions | None = None) -> dist.Work:  # type: ignore[override]
        """Send tensors; the future holds them, summed up over all processes."""
        sent_at = torch.tensor(time.perf_counter(), dtype=torch.float64)
        latest = dist.AllreduceOptions()
        latest.reduceOp = dist.ReduceOp(dist.ReduceOp.MAX)
        works = [self._within.allreduce([sent_at], latest), self._within.allreduce(tensors, opts or _SUM)]
        seconds = 0.0 if self.speed is None else self.speed.seconds(sum(one.nbytes for one in tensors))
        self.busy_s += seconds
        arrived: torch.futures.Future[list[torch.Tensor]] = torch.futures.Future()
        self._lane.put((works, sent_at, seconds, tensors, arrived))
        work: dist.Work = _create_work_from_future(arrived)
        return work

    def getBackendName(self) -> str:  # noqa: N802 - it overrides torch's
        """By which DDP knows what it may ask for."""
        return "gloo"

    def _serve(self) -> None:
        while True:
            self._carry(*self._lane.get())

    def _carry(self, works: Any, sent_at: torch.Tensor, seconds: float, sent: Any, arrived: Any) -> None:
        """One of them; nothing of it is held on to while the lane is empty."""
        try:
            for work in works:
                work.wait()
        except RuntimeError as error:  # another process is gone
            arrived.set_exception(error)
            return
        self._free_at = max(self._free_at, sent_at.item()) + seconds
        time.sleep(max(0.0, self._free_at - time.perf_counter()))
        arrived.set_result(sent)


_SUM = dist.AllreduceOptions()

"""A network link that everybody has: gloo on one machine, slowed down to the time that a link of given speed takes."""

import queue
import threading
import time
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket


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


class EmulatedLink:
    """A communication hook for DistributedDataParallel: `model.register_comm_hook(None, EmulatedLink(speed).hook)`.

    Gradients are averaged by gloo. A bucket is back when that is done, and not before its time on the link is over:
    that begins when the last process has sent it and the bucket before it is through. It passes on a thread, beside the
    backward pass. Truth is the same in all processes, which must share one clock (one host), up to scheduling.
    """

    def __init__(self, speed: Speed | None) -> None:
        self.speed = speed
        """None: as fast as gloo is. May change between two steps, at the same step in all processes."""
        self.busy_s = 0.0
        """Seconds that buckets have taken on the link so far, those that still wait for it included."""
        self._free_at = 0.0
        self._lane: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
        threading.Thread(target=self._serve, daemon=True).start()

    def hook(self, group: dist.ProcessGroup | None, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        """Send a bucket; the future is its mean over all processes of the group (None: all that there are)."""
        group = group or dist.group.WORLD
        assert group is not None, "DDP has one"
        buffer = bucket.buffer().div_(group.size())
        sent_at = torch.tensor(time.perf_counter(), dtype=torch.float64)
        latest = dist.AllreduceOptions()
        latest.reduceOp = dist.ReduceOp(dist.ReduceOp.MAX)
        works = [group.allreduce([sent_at], latest), group.allreduce([buffer])]
        seconds = 0.0 if self.speed is None else self.speed.seconds(buffer.nbytes)
        self.busy_s += seconds
        arrived: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        self._lane.put((works, sent_at, seconds, buffer, arrived))
        return arrived

    def _serve(self) -> None:
        while True:
            self._carry(*self._lane.get())

    def _carry(self, works: Any, sent_at: torch.Tensor, seconds: float, buffer: torch.Tensor, arrived: Any) -> None:
        """One bucket; nothing of it is held on to while the lane is empty."""
        try:
            for work in works:
                work.wait()
        except RuntimeError as error:  # another process is gone
            arrived.set_exception(error)
            return
        self._free_at = max(self._free_at, sent_at.item()) + seconds
        time.sleep(max(0.0, self._free_at - time.perf_counter()))
        arrived.set_result(buffer)

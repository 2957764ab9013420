"""Buckets of gradients on their way: when each was ready, sent and back, and passes that need not have sent any."""

import functools
import time
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from threading import get_ident
from typing import TYPE_CHECKING, Any, ClassVar

from hotlap.levers.lever import Patch
from hotlap.probe.event_counter import EventCounter, Spot, here
from hotlap.probe.guard import Function, call_behind
from hotlap.probe.profilers.profiler import Profiler
from hotlap.record import Bucket, BucketPass, SightingKind

if TYPE_CHECKING:
    from hotlap.probe.session import Session

# A record of 100 bytes each. A pass of a large model sends a hundred buckets.
_MOST_BUCKETS = 4000


@dataclass(slots=True)
class _Pass:
    """A backward pass that is under way. A bucket is [ready, back or None, bytes]."""

    models: set[int] = field(default_factory=set)
    """`id` of the modules whose gradients it has sent."""
    buckets: list[list[Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Sent:
    """A pass that has sent its gradients and was not followed by an update yet."""

    models: set[int]
    num_updates: int
    """Updates that optimizers had made by then."""
    spot: Spot
    held_s: float
    """From its last gradient to its end."""


class Buckets(Profiler):
    """WINDOW: some steps of DistributedDataParallel under a communication hook; none without it, or on a device.

    The hook is that of the script, which is wrapped, or one that does what DDP does without any. That one cannot be
    taken away again, so this is for processes that are thrown away. The numbers stay the same to the bit (tested).
    """

    num_steps: ClassVar[int] = 16
    patience_s: ClassVar[float] = 2.0
    fewest_steps: ClassVar[int] = 4

    def __init__(self) -> None:
        super().__init__()
        self._models: weakref.WeakSet[Any] = weakref.WeakSet()
        self._hooked: weakref.WeakSet[Any] = weakref.WeakSet()
        """Those with our own hook."""
        self._looks = False
        self._pass = _Pass()
        self._last: _Sent | None = None
        self._num_buckets = 0
        self._event_counter = EventCounter()

    def install(self, session: "Session", patch: Patch) -> None:
        """Know the models, and the hooks that the script registers."""
        from torch.nn.parallel import DistributedDataParallel

        super().install(session, patch)
        call_behind(patch, DistributedDataParallel, "__init__", self.guarded(self._models.add))
        self.hook(patch, DistributedDataParallel, "register_comm_hook", self._registering)

    def steps(self) -> Iterator[None]:
        """Every model gets a hook."""
        if self.session.collectives.on_device:
            return  # the host's clock does not tell when a bucket is back
        for model in list(self._models):
            if not model._comm_hooks:
                self._register(model)
        self._looks = bool(self._models)
        if self._looks:
            self.hook_backward(self.patch, self._begins, self._ended)
            for _ in self.paced():
                yield
                self._event_counter.end_step()
                if self._num_buckets >= _MOST_BUCKETS:
                    return

    def close(self) -> None:
        """Hooks only pass on from here."""
        self._looks = False
        super().close()

    def fields(self) -> Mapping[str, Any]:
        """`Run.sightings`; times of buckets are in the `RankLog`."""
        return {"sightings": self._event_counter.sightings()}

    def _register(self, model: Any) -> None:
        from torch._C._distributed_c10d import _register_comm_hook

        try:
            _register_comm_hook(model.reducer, model.process_group, self._timed(_mean, id(model)))
            self._hooked.add(model)
        except RuntimeError:  # it has one of those that are built into torch, which cannot be wrapped
            self._models.discard(model)

    def _registering(self, register: Function, model: Any, state: object, hook: Function) -> None:
        # torch takes one hook for each model. Steps of a process that will be thrown away go on without another.
        if model not in self._hooked:
            register(model, state, self._timed(hook, id(model)))

    def _timed(self, hook: Function, model: int) -> Function:
        note = self.guarded(functools.partial(self._note, model))

        @functools.wraps(hook)
        def timed(state: Any, bucket: Any) -> Any:
            if not self._looks or get_ident() != self.session.thread.id:
                return hook(state, bucket)
            ready = time.perf_counter()
            future = hook(state, bucket)
            note(ready, future, bucket)
            return future

        return timed

    def _note(self, model: int, ready: float, future: Any, bucket: Any) -> None:
        row = [ready, None, bucket.buffer().nbytes]
        self._pass.models.add(model)
        self._pass.buckets.append(row)
        future.add_done_callback(lambda _: row.__setitem__(1, time.perf_counter()))

    def _begins(self, root: Any, args: Any, kwargs: Any) -> None:
        self._pass = _Pass()

    def _ended(self, seconds: float) -> None:
        """Of two passes that both sent a model's gradients before one update, the first need not have."""
        end, models, rows = time.perf_counter(), self._pass.models, self._pass.buckets
        if not rows:
            return
        updates, before = self.session.updates_made, self._last
        if before is not None and before.num_updates == updates and before.models & models:
            self._event_counter.add(SightingKind.ACCUMULATION_SYNC, "backward", before.spot, cost_s=before.held_s)
        self._last = _Sent(models, updates, here(), end - rows[-1][0])
        self._num_buckets += len(rows)
        self.session.collectives.passes.append(
            BucketPass(step_index=self.session.steps, end=end, buckets=tuple(_buckets(rows, end)))
        )


def _buckets(rows: list[list[Any]], end: float) -> Iterator[Bucket]:
    """The thread that is told that a bucket is back may come late; the pass was not over before."""
    for ready, back, num_bytes in rows:
        yield Bucket(ready=ready, back=end if back is None else min(back, end), num_bytes=num_bytes)


def _mean(group: Any, bucket: Any) -> Any:
    """What DDP does without a hook, to the bit: gradients are scaled, then summed."""
    buffer = bucket.buffer()
    if buffer.is_sparse:
        buffer.div_(group.size())
    else:
        buffer.mul_(1.0 / group.size())
    return group.allreduce([buffer]).get_future().then(_first)


def _first(future: Any) -> Any:
    return future.value()[0]

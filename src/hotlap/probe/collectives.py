"""Processes that train together: who this one is, and what its collectives hold it for.

Collectives that the script calls are wrapped. The all-reduce of DistributedDataParallel has no call: its buckets leave
while gradients are still computed, and at the end of the backward pass the process is held until all are back. The
moment before that is heard by a callback of the autograd engine that is queued before DDP queues its own: the engine
runs them in order when the last gradient of this process is there.
"""

import functools
import os
import socket
import sys
from collections.abc import Callable, Mapping
from threading import get_ident
from typing import Any

import torch

from hotlap import accelerator
from hotlap.levers.lever import Patch
from hotlap.probe import clock as phases
from hotlap.probe.clock import Clock
from hotlap.probe.guard import Guard, call_behind, surrounded
from hotlap.probe.thread import TrainingThread

# All of torch.distributed in which others can hold a process. Names that this torch does not have are passed over.
_COLLECTIVES = (
    *("all_reduce", "all_reduce_coalesced", "broadcast", "reduce", "barrier", "monitored_barrier"),
    *("all_gather", "all_gather_into_tensor", "all_gather_single", "all_gather_coalesced", "all_gather_object"),
    *("gather", "gather_object", "scatter", "scatter_object_list", "broadcast_object_list"),
    *("reduce_scatter", "reduce_scatter_tensor", "reduce_scatter_single", "all_to_all", "all_to_all_single"),
)
_BETWEEN_TWO = ("send", "recv", "isend", "irecv", "batch_isend_irecv", "send_object_list", "recv_object_list")

# Wrappers that communicate within the backward pass.
_HIDES = frozenset({"DistributedDataParallel", "FullyShardedDataParallel"})


class Collectives:
    """The books of one process. Nothing is kept, and hardly anything done, in a training by one process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.rank = _number("RANK", 0)
        self.world_size = _number("WORLD_SIZE", 1)
        self.local_rank = _number("LOCAL_RANK", 0)
        self.active = False
        """A process group of several was made."""
        self.hidden = False
        """A module communicates within its backward pass."""
        self._on_device = False
        """The collectives run on a device, and hardly hold the host."""
        self._of_some = False
        """The script has called a collective of some of the processes only."""
        self._last_gradient: float | None = None

    @property
    def local_size(self) -> int:
        """Processes of this training on this host; all of them, where nobody says."""
        return _number("LOCAL_WORLD_SIZE", self.world_size)

    # Who am I?

    def joined(self) -> None:
        """Is there a process group by now? Asked when one was made, and at the first steps."""
        # Never imported by us: torch brings it along, where it was built with it.
        dist = sys.modules.get("torch.distributed")
        if dist is None or not dist.is_available() or not dist.is_initialized():
            return
        self.rank, self.world_size = dist.get_rank(), dist.get_world_size()
        # A process that was forked is told its own behind the fork only (Accelerate's `notebook_launcher`).
        self.local_rank = _number("LOCAL_RANK", self.rank)
        self.active = self.world_size > 1
        self._on_device = str(dist.get_backend()) not in ("gloo", "mpi") and accelerator.in_use() is not None

    def saw_module(self, module: torch.nn.Module) -> None:
        """A module makes a forward pass, in the first steps."""
        if self.active and not self.hidden:
            # fully_shard (FSDP2) puts its own class in front of each module's: FSDPLinear.
            self.hidden = any(
                type(part).__name__ in _HIDES or type(part).__name__.startswith("FSDP") for part in module.modules()
            )

    # Collectives that the script calls

    def timed(self, function: Callable[..., Any], thread: TrainingThread, *, of_all: bool = True) -> Callable[..., Any]:
        """`function`, its time in the communication phase. `of_all`: all processes take part, but for a `group`."""

        clock = self._clock
        held = surrounded(functools.partial(clock.enter, phases.COMMUNICATION), function, clock.leave)

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if clock.where == phases.COMMUNICATION or get_ident() != thread.id:
                return function(*args, **kwargs)
            self._of_some |= not (of_all and self._is_of_all(args, kwargs))
            return held(*args, **kwargs)

        return wrapper

    def _is_of_all(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        group = kwargs.get("group") or next(
            (arg for arg in args if hasattr(arg, "size") and hasattr(arg, "rank")), None
        )
        if group is None or isinstance(group, torch.Tensor):
            return True
        try:
            return int(group.size()) == self.world_size
        except (TypeError, RuntimeError, ValueError):
            return False

    # Those that are hidden in a backward pass

    def listening(self, backward: Callable[..., Any], guard: Guard) -> Callable[..., Any]:
        """`backward` (from what, *args), of a module that is `hidden`."""
        what = "the communication within backward passes"
        listen, heard = guard(self._listen, what), guard(self._heard, what)

        def wrapper(roots: Any, *args: Any, **kwargs: Any) -> Any:
            stop = listen(roots)
            try:
                return backward(*args, **kwargs)
            finally:
                if stop is not None:
                    heard()
                    stop()

        return wrapper

    def _listen(self, roots: Any) -> Callable[[], None] | None:
        """A backward pass from `roots` begins: be told when its last gradient is there. Answers how to stop."""
        self._last_gradient = None
        for root in roots if isinstance(roots, list | tuple) else (roots,):
            if getattr(root, "requires_grad", False):
                return root.register_hook(self._backward_begins).remove  # type: ignore[no-any-return]
        return None

    def _backward_begins(self, gradient: Any) -> None:
        from torch.autograd import Variable

        # torch's own FSDP notices the end of a backward pass in the same way.
        Variable._execution_engine.queue_callback(self._gradients_are_there)

    def _gradients_are_there(self) -> None:
        self._last_gradient = self._clock.now()

    def _heard(self) -> None:
        """The backward pass is over: what has passed since its last gradient was communication."""
        if self._last_gradient is not None:
            self._clock.note((phases.COMMUNICATION, self._last_gradient, self._clock.now()))

    def fields(self) -> Mapping[str, Any]:
        """Of a Run."""
        return {
            "rank": self.rank,
            "world_size": self.world_size,
            "host": socket.gethostname() if self.active else None,
            "collectives_on_device": self._on_device,
            "collectives_of_some": self._of_some,
        }


def install(books: Collectives, patch: Patch, thread: TrainingThread, joined: Callable[[], None], guard: Guard) -> None:
    """Hear of everything in torch.distributed that can hold a process. `joined` is told when a group was made."""
    import torch.distributed as dist

    if not dist.is_available():
        return
    from torch.nn.parallel import DistributedDataParallel

    what = "the communication of processes"
    held = [(dist, name, True) for name in _COLLECTIVES] + [(dist, name, False) for name in _BETWEEN_TWO]
    # DistributedDataParallel sends buffers in front of a forward pass, by a method that has no public name.
    for owner, name, of_all in (*held, (dist.Work, "wait", True), (DistributedDataParallel, "_sync_buffers", True)):
        if (function := getattr(owner, name, None)) is not None:
            timed = functools.partial(books.timed, thread=thread, of_all=of_all)
            patch.set(owner, name, guard.around(function, timed, what))
    call_behind(patch, dist, "init_process_group", lambda *_: joined())


def _number(name: str, otherwise: int) -> int:
    text = os.environ.get(name, "")
    return int(text) if text.isdigit() else otherwise

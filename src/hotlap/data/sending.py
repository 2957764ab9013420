"""What a worker is sent when it is started by spawn or forkserver, as one digest: equal ones begin alike."""

import hashlib
import pickle
from typing import Any, final

import torch

from hotlap.data.determinism import Streams


@final
class _Sink:
    """Reads what is written to it, and forgets it."""

    def __init__(self) -> None:
        self.digest = hashlib.sha256()

    def write(self, data: Any) -> int:
        self.digest.update(data)
        return memoryview(data).nbytes


def start_method(context: Any) -> str:
    """How a loader with this `multiprocessing_context` starts its workers: "fork", "spawn" or "forkserver"."""
    method = context if context is None or isinstance(context, str) else context.get_start_method()
    return str(method or torch.multiprocessing.get_start_method())


def why_no_copies(loader: Any) -> str | None:
    """Why a loader's workers do not share this process's memory; None if they are forked copies of it."""
    method = start_method(loader.multiprocessing_context)
    return None if method == "fork" else f"its workers are started by {method}, so they share no memory with this one"


def why_any_order(loader: Any) -> str | None:
    """Why a loader's batches may come in any order; None if they come in the sampler's."""
    in_order = getattr(loader, "in_order", True)  # torch 2.7 and newer
    return None if in_order else "its batches may come in any order (in_order=False)"


def sent(loader: Any, dataset: Any) -> str | None:
    """Digest of data set, collate function and `worker_init_fn`; None if they cannot be compared like that.

    What shares memory or handles with this process (tensors, by torch) is compared by its bytes, and what can only be
    handed on at the start of a process (locks, queues) not at all.
    """
    streams = Streams()
    before = streams.states()
    sink = _Sink()
    try:
        pickle.Pickler(sink, protocol=pickle.HIGHEST_PROTOCOL).dump((dataset, loader.collate_fn, loader.worker_init_fn))
    except Exception:  # the script's own code; its own workers are sent it in another way
        streams.restore(before)
        return None
    if streams.drawn(before) is not None:
        streams.restore(before)
        return None
    return sink.digest.hexdigest()

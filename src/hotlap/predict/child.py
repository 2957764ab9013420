"""CHILD: runs the user's script until a few steps are timed and one is traced, then ends the process.

`python -m hotlap.predict.child OUT SCRIPT ARGS...` or `... OUT -m MODULE ARGS...`. A step lies between two ends of the
same optimizer's `step()`: whatever the script does in between (several backward passes, other optimizers) belongs to
it.
"""

import functools
import os
import runpy
import sys
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from hotlap.predict.trace import Tracer
from hotlap.record import codec

WARMUP_STEPS = 3
TIMED_STEPS = 8
# Slow steps are not waited for: this much time is enough to warm up, and to know them.
WARM_ENOUGH_S = 5.0
TIMED_ENOUGH_S = 20.0


class _Watch:
    """Counts steps, times some, traces one, writes the workload and leaves."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._marker: Any = None
        self._steps = 0
        self._warm_s = 0.0
        self._times: list[float] = []
        self._begun = time.perf_counter()
        self._tracer: Tracer | None = None
        self._input_s = 0.0
        self._inputs: list[float] = []
        self._batch_bytes = 0.0
        self._workers: int | None = None

    def stepped(self, optimizer: torch.optim.Optimizer, *_: object) -> None:
        """An optimizer has stepped."""
        if self._marker is None:
            self._marker = optimizer
        if optimizer is not self._marker:
            return
        if next(iter(optimizer.param_groups[0]["params"])).is_cuda:
            torch.cuda.synchronize()
        now = time.perf_counter()
        if self._tracer is not None:
            self._leave(self._tracer)
        self._steps += 1
        # The first "step" holds all that comes before it: imports, data, the model.
        if self._steps > WARMUP_STEPS or self._warm_s > WARM_ENOUGH_S:
            self._times.append(now - self._begun)
            self._inputs.append(self._input_s)
        elif self._steps > 1:
            self._warm_s += now - self._begun
        if len(self._times) >= TIMED_STEPS or sum(self._times) > TIMED_ENOUGH_S:
            self._tracer = Tracer()
            self._tracer.start(p for group in optimizer.param_groups for p in group["params"])
        self._input_s = 0.0
        self._begun = time.perf_counter()

    def load(self, draw: Any, iterator: Any) -> Any:
        """A batch is drawn: aside of the trace, and timed."""
        begun = time.perf_counter()
        if self._tracer is None:
            batch = draw(iterator)
        else:
            with self._tracer.aside():
                batch = draw(iterator)
            self._batch_bytes += _tensor_bytes(batch)
        self._workers = int(getattr(iterator, "_num_workers", 0))
        self._input_s += time.perf_counter() - begun
        return batch

    def _leave(self, tracer: Tracer) -> None:
        work = tracer.stop(name=Path(sys.argv[0]).name, batch_bytes=self._batch_bytes)
        # With workers the wait is what counts, and it is part of the step already; without, the load itself.
        input_s = median(self._inputs) if self._workers == 0 else None
        work = replace(work, input_s=input_s, input_workers=self._workers if input_s is not None else None)
        device = _device(self._marker)
        codec.save(work, self._out / "workload.json")
        codec.save({"schema": 1, "step_s": median(self._times), "device": device}, self._out / "measured.json")
        sys.stdout.flush()
        os._exit(0)


def _tensor_bytes(value: Any) -> float:
    from torch.utils._pytree import tree_leaves

    return float(sum(leaf.nbytes for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)))


def _device(optimizer: torch.optim.Optimizer) -> str:
    first = optimizer.param_groups[0]["params"][0]
    return torch.cuda.get_device_name(first.device) if first.device.type == "cuda" else "cpu"


def main() -> None:
    """Watch the optimizers and the loaders, then become the script."""
    out, *words = sys.argv[1:]
    watch = _Watch(Path(out))
    register_optimizer_step_post_hook(watch.stepped)
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    plain = _BaseDataLoaderIter.__next__

    @functools.wraps(plain)
    def watched(iterator: Any) -> Any:
        return watch.load(plain, iterator)

    setattr(_BaseDataLoaderIter, "__next__", watched)  # noqa: B010 - a method is replaced on purpose
    if words[0] == "-m":
        sys.argv = words[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        return
    sys.argv = words
    sys.path[0] = str(Path(words[0]).resolve().parent)
    runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    main()

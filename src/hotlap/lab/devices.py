"""devices (F3): MNIST in ten epochs: from which model size on does a GPU pay?"""

from collections.abc import Sequence
from dataclasses import replace

from hotlap import machine
from hotlap.cli.traced import Traced
from hotlap.lab import Doing, Settings, gpus
from hotlap.lab.result import Cell, Quantity, Result, Table, ahead_from
from hotlap.lab.studies import BATCH_SIZE, MNIST_ITEMS, PATTERNS, Bench, of_lab

TAKES = ("gpu",)

NUM_EPOCHS = 10
NUM_STEPS = NUM_EPOCHS * -(-MNIST_ITEMS // BATCH_SIZE)
HIDDEN = (32, 128, 512, 2048, 8192)
QUICK_HIDDEN = (32, 512)
BASE = 128  # the article's "simple net"

Size = tuple[int, Quantity, Quantity, Quantity, Quantity]
"""Hidden units; a step on the CPU; of it, the wait for the batch; a step on the GPU, and there without such waits."""


def run(settings: Settings, doing: Doing) -> Result:
    """Time some steps of each size, predict the GPU where there is none."""
    gpu = gpus.chosen(settings, machine.look().gpus)
    with of_lab("mnist.py", doing) as script:
        bench = script.asked("--epochs", str(NUM_EPOCHS))
        found = [_size(bench, hidden, gpu) for hidden in (QUICK_HIDDEN if settings.quick else HIDDEN)]
    return tell(found, gpu=gpu)


def _size(bench: Bench, hidden: int, gpu: gpus.Gpu) -> Size:
    known = bench.asked("--hidden", str(hidden), "--device", "cpu").traced()
    waiting_s, step = known.work.input_s or 0.0, _step(known)
    if gpu.predicted:
        work = replace(known.work, input_s=None, input_workers=None, batch_bytes=None)
        without_data = replace(known, work=work, step_s=step.value - waiting_s)
        there, kept = (Quantity.of(gpus.there(one, gpu.name).step_s, predicted=True) for one in (known, without_data))
    else:
        on_gpu = bench.asked("--hidden", str(hidden), "--device", "cuda").traced()
        there = _step(on_gpu)
        kept = Quantity(value=max(0.0, there.value - (on_gpu.work.input_s or 0.0)))
    return hidden, step, Quantity(value=waiting_s), there, kept


def _step(known: Traced) -> Quantity:
    assert known.run is not None
    return Quantity.median(known.run.step_s)


def tell(sizes: Sequence[Size], *, gpu: gpus.Gpu) -> Result:
    """The numbers, and what they mean."""
    rows: list[tuple[Cell, ...]] = [(f"{hidden:,}", *times) for hidden, *times in sizes]
    table = Table(
        title=f"784 inputs, so many hidden units, 10 outputs: this CPU and the {gpu.name}",
        columns=("hidden", "CPU, a step", "of it, for the batch", "GPU, a step", "GPU, data kept there"),
        rows=tuple(rows),
        note="The article: 153 s on its CPU, 83 s on its GPU.",
    )
    hidden, *times = min(sizes, key=lambda size: abs(size[0] - BASE))
    here, _, there, kept = (step.times(NUM_STEPS) for step in times)
    at = ahead_from([size[0] for size in sizes], [size[1] for size in sizes], [size[3] for size in sizes])
    ahead = "at none" if at is None else f"from {at:,} hidden units on"
    story = (
        f"Ten epochs with {hidden} hidden units take {here} on this CPU, by its steps. The {gpu.name} takes {there}, "
        f"and {kept} with the data kept there. (The article: 153 s and 83 s.)",
        f"Of the sizes tried the GPU is ahead of this CPU {ahead}, by the intervals. Below that its step is made of "
        "waiting for the batch, and of calls that cost more than what they compute (`hotlap lab launch-floor`).",
    )
    counted = f"Ten epochs are {NUM_STEPS:,} steps of {BATCH_SIZE} images, each as long as the median of some."
    return Result(story=story, tables=(table,), notes=(*gpu.notes, PATTERNS, counted))

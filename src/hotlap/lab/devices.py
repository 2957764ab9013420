"""devices (F3): MNIST in ten epochs: from which model size on does a GPU pay?"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from hotlap import machine
from hotlap.cli.traced import Traced
from hotlap.lab import digits, gpus
from hotlap.lab.result import Cell, Quantity, Result, Table, ahead_from, count, seconds
from hotlap.lab.settings import Settings
from hotlap.lab.studies import Bench, of_lab
from hotlap.machine.figures import median_interval
from hotlap.record import Study
from hotlap.report.story import ceiling_sentence, interval

NUM_EPOCHS = 10
NUM_STEPS = NUM_EPOCHS * -(-digits.NUM_ITEMS // digits.BATCH_SIZE)
HIDDEN = (32, 128, 512, 2048, 8192)
QUICK_HIDDEN = (32, 512)
# The article's "simple net".
BASE = 128
_EPOCHS = ("CPU, ten epochs", "GPU, baseline", "GPU, data kept there")
# So many images where only some steps are made.
_FEW_ITEMS = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """One model, measured."""

    hidden: int
    step: Quantity
    """On the CPU."""
    waits_s: float
    """Of that, for the batch."""
    there: Quantity
    """On the GPU, baseline."""
    kept: Quantity
    """There, without waiting for batches."""


def run(settings: Settings, doing: Callable[[str], None]) -> Result:
    """Measure the base size, time some steps of each size, predict the GPU where there is none."""
    digits.check(settings)
    here = machine.look()
    gpu = gpus.chosen(settings, here=here.gpus[0] if here.gpus else None)
    num_items = _FEW_ITEMS if settings.quick else digits.NUM_ITEMS
    with of_lab("mnist.py", doing) as script:
        data, about_data = digits.prepared(settings, script.folder, count=num_items)
        bench = script.asked("--data", str(data), "--items", str(num_items), "--epochs", str(NUM_EPOCHS))
        base = bench.asked("--hidden", str(BASE), "--device", "cpu")
        study = base.measured(quick=settings.quick, repeat=not settings.quick)
        found = [_size(bench, hidden, gpu) for hidden in (QUICK_HIDDEN if settings.quick else HIDDEN)]
    return tell(found, settings, gpu=gpu, study=study, about_data=about_data)


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
        kept = seconds(max(0.0, there.value - (on_gpu.work.input_s or 0.0)))
    return Size(hidden=hidden, step=step, waits_s=waiting_s, there=there, kept=kept)


def _step(known: Traced) -> Quantity:
    assert known.run is not None
    return Quantity.of(median_interval(known.run.step_s))


def tell(sizes: Sequence[Size], settings: Settings, *, gpu: gpus.Gpu, study: Study, about_data: str) -> Result:
    """The numbers, and what they mean."""
    return Result(
        story=tuple(_story(sizes, gpu, None if settings.quick else study)),
        tables=(_table(sizes, gpu),),
        notes=(
            *gpu.notes,
            about_data,
            f"Ten epochs are {NUM_STEPS:,} steps of {digits.BATCH_SIZE} images, counted from the median of some steps.",
        ),
        study=study,
        gpus=gpu.here,
    )


def _table(sizes: Sequence[Size], gpu: gpus.Gpu) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (count(one.hidden), one.step, seconds(one.waits_s), one.there, *_epochs(one)) for one in sizes
    ]
    return Table(
        title=f"784 inputs, so many hidden units, 10 outputs: this CPU and {gpus.an(gpu.name)}",
        columns=("hidden", "CPU, a step", "of it, for the batch", "GPU, a step", *_EPOCHS),
        rows=tuple(rows),
        note="The article: 153 s on its CPU, 83 s on its GPU.",
    )


def _epochs(one: Size) -> tuple[Quantity, ...]:
    """Ten of them: on the CPU, on the GPU, and there without waiting for batches."""
    return tuple(step.times(NUM_STEPS) for step in (one.step, one.there, one.kept))


def _story(sizes: Sequence[Size], gpu: gpus.Gpu, study: Study | None) -> list[str]:
    """`study`: with ceilings from runs that were repeated; None without them."""
    one = min(sizes, key=lambda size: abs(size.hidden - BASE))
    here, there, kept = _epochs(one)
    told = [
        f"Ten epochs with {one.hidden} hidden units take {here} on this CPU, by its steps. {gpu.title} {gpu.takes} "
        f"{there}, and {kept} with the data kept there. (The article: 153 s and 83 s.)"
    ]
    ceiling = next((one for one in study.ceilings if one.name == "input"), None) if study else None
    if ceiling is not None:
        told.append(
            f"{ceiling_sentence(ceiling)} ({interval(ceiling.speedup)}). No GPU makes batches, so as long as the data "
            "come image by image from Python they bound what any device brings."
        )
    hidden = [one.hidden for one in sizes]
    bare = [replace(one.step, value=one.step.value - one.waits_s, low=None, high=None) for one in sizes]
    ahead = (
        ahead_from(hidden, [one.step for one in sizes], [one.there for one in sizes]),
        ahead_from(hidden, bare, [one.kept for one in sizes]),
    )
    said = ["at none" if at is None else f"from {at:,} hidden units on" for at in ahead]
    told.append(
        f"Of the sizes tried the GPU is ahead of this CPU {said[0]} as it is, and {said[1]} where nobody waits for "
        "data on either side, by the intervals. Below that its step is made of calls that cost more than what they "
        "compute (`hotlap lab launch-floor`)."
    )
    return told

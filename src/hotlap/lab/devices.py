"""devices (F3): MNIST in ten epochs: from which model size on does a GPU pay?"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from hotlap import machine
from hotlap.lab import digits, gpus
from hotlap.lab.result import Cell, Quantity, Result, Table, ahead_from, count, seconds
from hotlap.lab.settings import Settings
from hotlap.lab.studies import Bench, mean_s, of_lab, waits_s
from hotlap.machine.figures import median_interval
from hotlap.predict import Workload
from hotlap.record import Study
from hotlap.report.story import ceiling_sentence, interval

TITLE = "The same training on a CPU and on a GPU: which model size turns the tables?"
NUM_EPOCHS = 10
NUM_STEPS = NUM_EPOCHS * -(-digits.NUM_ITEMS // digits.BATCH_SIZE)
HIDDEN = (32, 128, 512, 2048, 8192)
QUICK_HIDDEN = (32, 512)
# The article's "simple net".
BASE = 128
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

    @property
    def num_parameters(self) -> int:
        """Of 784-hidden-10."""
        return 784 * self.hidden + self.hidden + 10 * self.hidden + 10


def run(settings: Settings, doing: Callable[[str], None]) -> Result:
    """Measure the base size, time some steps of each size, predict the GPU where there is none."""
    digits.check(settings)
    here = machine.look()
    gpu = gpus.chosen(settings, here=here.gpus[0] if here.gpus else None)
    with of_lab("mnist.py", doing) as script:
        num_items = _FEW_ITEMS if settings.quick else digits.NUM_ITEMS
        data, about_data = digits.prepared(settings, script.folder, count=num_items)
        bench = script.asked("--data", str(data), "--items", str(num_items), "--epochs", str(NUM_EPOCHS))
        study = bench.asked("--hidden", str(BASE), "--device", "cpu").measured(
            quick=settings.quick, repeat=not settings.quick
        )
        found = []
        for hidden in QUICK_HIDDEN if settings.quick else HIDDEN:
            doing(f"timing a net with {hidden:,} hidden units")
            found.append(_size(bench, hidden, gpu))
    return tell(found, settings, gpu=gpu, study=study, about_data=about_data)


def _size(bench: Bench, hidden: int, gpu: gpus.Gpu) -> Size:
    run, work = bench.asked("--hidden", str(hidden), "--device", "cpu").timed()
    waiting_s = waits_s(run)
    if gpu.predicted:
        there, kept = (
            Quantity.of(gpus.there(one, gpu.name, device="cpu", step_s=step_s).step_s, predicted=True)
            for one, step_s in _two(work, waiting_s, mean_s(run))
        )
    else:
        on_gpu, _ = bench.asked("--hidden", str(hidden), "--device", "cuda").timed()
        there = Quantity.of(median_interval(on_gpu.step_s))
        kept = seconds(max(0.0, there.value - waits_s(on_gpu)))
    step = Quantity.of(median_interval(run.step_s))
    return Size(hidden=hidden, step=step, waits_s=waiting_s, there=there, kept=kept)


def _two(work: Workload, waiting_s: float, step_s: float) -> tuple[tuple[Workload, float], ...]:
    """In the baseline, and with the data kept on the device."""
    return (
        (replace(work, input_s=waiting_s, input_workers=0), step_s),
        (replace(work, input_s=None, input_workers=None, batch_bytes=None), step_s - waiting_s),
    )


def tell(sizes: Sequence[Size], settings: Settings, *, gpu: gpus.Gpu, study: Study, about_data: str) -> Result:
    """The numbers, and what they mean."""
    return Result(
        name="devices",
        title=TITLE,
        story=tuple(_story(sizes, gpu, None if settings.quick else study)),
        tables=(_table(sizes, gpu),),
        notes=(
            *gpu.notes,
            about_data,
            f"Ten epochs are {NUM_STEPS:,} steps of {digits.BATCH_SIZE} images, counted from the median of some steps.",
        ),
        study=study,
        quick=settings.quick,
        gpus=() if gpu.predicted else (gpu.name,),
    )


def _table(sizes: Sequence[Size], gpu: gpus.Gpu) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (
            count(one.hidden),
            count(one.num_parameters),
            one.step,
            seconds(one.waits_s),
            one.there,
            one.step.times(NUM_STEPS),
            one.there.times(NUM_STEPS),
            one.kept.times(NUM_STEPS),
        )
        for one in sizes
    ]
    return Table(
        title=f"784 inputs, so many hidden units, 10 outputs: this CPU and {gpus.an(gpu.name)}",
        columns=(
            "hidden",
            "parameters",
            "CPU, a step",
            "of it, for the batch",
            "GPU, a step",
            "CPU, ten epochs",
            "GPU, baseline",
            "GPU, data kept there",
        ),
        rows=tuple(rows),
        note="The article: 153 s on its CPU, 83 s on its GPU.",
    )


def _story(sizes: Sequence[Size], gpu: gpus.Gpu, study: Study | None) -> list[str]:
    """`study`: with ceilings from runs that were repeated; None without them."""
    one = min(sizes, key=lambda size: abs(size.hidden - BASE))
    told = [
        f"Ten epochs with {one.hidden} hidden units take {one.step.times(NUM_STEPS)} on this CPU, by its steps. "
        f"{gpu.title} {gpu.takes} {one.there.times(NUM_STEPS)}, and {one.kept.times(NUM_STEPS)} with the data kept "
        "there. (The article: 153 s and 83 s.)"
    ]
    ceiling = next((one for one in study.ceilings if one.name == "input"), None) if study else None
    if ceiling is not None:
        told.append(
            f"{ceiling_sentence(ceiling)} ({interval(ceiling.speedup)}). No GPU makes batches, so as long as the data "
            "come image by image from Python they bound what any device brings."
        )
    hidden = [one.num_parameters for one in sizes]
    bare = [replace(one.step, value=one.step.value - one.waits_s, low=None, high=None) for one in sizes]
    written = ahead_from(hidden, [one.step for one in sizes], [one.there for one in sizes])
    kept = ahead_from(hidden, bare, [one.kept for one in sizes])
    said = ["at none" if at is None else f"from {at:,} parameters on" for at in (written, kept)]
    told.append(
        f"Of the sizes tried the GPU is ahead of this CPU {said[0]} as it is, and {said[1]} where nobody waits for "
        "data on either side, by the intervals. Below that its step is made of calls that cost more than what they "
        "compute (`hotlap lab launch-floor`)."
    )
    return told

"""devices (F3): MNIST in ten epochs: from which model size on does a GPU pay?"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from hotlap import machine
from hotlap.lab import digits, gpus
from hotlap.lab.launching import Bench, bench, waits_s
from hotlap.lab.result import Cell, Curve, Curves, Quantity, Result, Table, Unit, count, crossing, seconds
from hotlap.lab.settings import Settings
from hotlap.lab.words import PREDICTED, an, quantity, times_as
from hotlap.predict import Workload, forecast
from hotlap.record import Run
from hotlap.units import duration, percent

TITLE = "The same training on a CPU and on a GPU: which model size turns the tables?"
NUM_EPOCHS = 10
HIDDEN = (32, 128, 512, 2048, 8192)
QUICK_HIDDEN = (32, 512)
# The article's "simple net".
BASE = 128
# The words of the table.
AS_WRITTEN, KEPT = "as written", "data kept there"
_STEPS, _WARMUP = 40, 8
_QUICK_STEPS, _QUICK_WARMUP = 12, 3
# So many images for the runs of some steps only.
_FEW_ITEMS = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """One model, measured."""

    hidden: int
    step_s: float
    """Mean, on the CPU."""
    waits_s: float
    """Of that, for the batch."""
    gpu_step_s: float | None = None
    """Mean, on the GPU that is here."""
    gpu_waits_s: float | None = None
    work: Workload | None = None
    """Where a GPU must be predicted."""

    @property
    def num_parameters(self) -> int:
        """Of 784-hidden-10."""
        return 784 * self.hidden + self.hidden + 10 * self.hidden + 10


def run(settings: Settings, doing: Callable[[str], None]) -> Result:
    """Time some steps of each size; the base size also to its end."""
    digits.check(settings)
    here = machine.look()
    gpu = here.gpus[0] if here.gpus else None
    few = ("--items", str(_FEW_ITEMS), "--epochs", "100")
    found: list[Size] = []
    whole_s = None
    with bench("mnist.py") as place:
        num_items = _FEW_ITEMS if settings.quick else digits.NUM_ITEMS
        data, about_data = digits.prepared(settings, place.results, count=num_items)
        words = ("--data", str(data))
        for hidden in QUICK_HIDDEN if settings.quick else HIDDEN:
            doing(f"timing a net with {hidden:,} hidden units")
            found.append(_size(place, (*words, *few), hidden, on_gpu=gpu is not None, quick=settings.quick))
        if not settings.quick:
            doing(f"training {NUM_EPOCHS} epochs on the CPU with {BASE} hidden units")
            done = place.finished(*words, "--items", str(digits.NUM_ITEMS), "--epochs", str(NUM_EPOCHS))
            whole_s = float(done.told["trainings"][0]["seconds"])
    return tell(found, settings, gpu=gpu, whole_s=whole_s, about_data=about_data)


def _size(place: Bench, words: Sequence[str], hidden: int, *, on_gpu: bool, quick: bool) -> Size:
    steps, warmup = (_QUICK_STEPS, _QUICK_WARMUP) if quick else (_STEPS, _WARMUP)
    words = (*words, "--hidden", str(hidden))
    if not on_gpu:
        run, work = place.traced(*words, steps=steps, warmup=warmup)
        return Size(hidden=hidden, step_s=_mean_s(run), waits_s=waits_s(run), work=work)
    run = place.run(place.plan(*words, steps=steps, warmup=warmup))
    there = place.run(place.plan(*words, "--device", "cuda", steps=steps, warmup=warmup))
    return Size(
        hidden=hidden,
        step_s=_mean_s(run),
        waits_s=waits_s(run),
        gpu_step_s=_mean_s(there),
        gpu_waits_s=waits_s(there),
    )


def _mean_s(run: Run) -> float:
    return sum(run.step_s) / len(run.step_s)


def tell(
    sizes: Sequence[Size], settings: Settings, *, gpu: str | None, whole_s: float | None, about_data: str
) -> Result:
    """The numbers, and what they mean."""
    chosen = gpus.chosen(settings, here=gpu)
    there = _there(sizes, chosen)
    return Result(
        name="devices",
        title=TITLE,
        story=tuple(_story(sizes, there, chosen, whole_s)),
        tables=(_table(sizes, there, chosen),),
        pictures=(_picture(sizes, there, chosen),),
        notes=(
            *chosen.notes,
            about_data,
            f"Ten epochs are {_num_steps():,} steps of {digits.BATCH_SIZE} images; but for the {BASE} hidden units of "
            "the article's net, they are counted from the mean of some measured steps.",
        ),
        quick=settings.quick,
        gpus=() if chosen.predicted else (chosen.name,),
    )


def _num_steps() -> int:
    return NUM_EPOCHS * -(-digits.NUM_ITEMS // digits.BATCH_SIZE)


def _there(sizes: Sequence[Size], gpu: gpus.Gpu) -> dict[str, list[Quantity]]:
    """A step on the GPU: as written, and with the data kept there."""
    if not gpu.predicted:
        return {
            AS_WRITTEN: [seconds(one.gpu_step_s or 0.0) for one in sizes],
            KEPT: [seconds((one.gpu_step_s or 0.0) - (one.gpu_waits_s or 0.0)) for one in sizes],
        }
    name, devices = gpus.here()
    found: dict[str, list[Quantity]] = {AS_WRITTEN: [], KEPT: []}
    for one in sizes:
        assert one.work is not None
        for way, work, step_s in (
            (AS_WRITTEN, replace(one.work, input_s=one.waits_s, input_workers=0), one.step_s),
            (KEPT, replace(one.work, input_s=None, input_workers=None, batch_bytes=None), one.step_s - one.waits_s),
        ):
            prediction = forecast(work, target=gpu.name, measured_on=name, measured_step_s=step_s, devices=devices)
            found[way].append(Quantity.of(prediction.step_s, Unit.SECOND, predicted=True))
    return found


def _table(sizes: Sequence[Size], there: Mapping[str, Sequence[Quantity]], gpu: gpus.Gpu) -> Table:
    steps = _num_steps()
    rows: list[tuple[Cell, ...]] = [
        (
            count(one.hidden),
            count(one.num_parameters),
            seconds(one.step_s),
            seconds(one.waits_s),
            there[AS_WRITTEN][k],
            seconds(one.step_s * steps),
            there[AS_WRITTEN][k].times(steps),
            there[KEPT][k].times(steps),
        )
        for k, one in enumerate(sizes)
    ]
    return Table(
        title=f"784 inputs, so many hidden units, 10 outputs: this CPU and {an(gpu.name)}",
        columns=(
            "hidden",
            "parameters",
            "CPU, a step",
            "of it, for the batch",
            "GPU, a step",
            "CPU, ten epochs",
            f"GPU, {AS_WRITTEN}",
            f"GPU, {KEPT}",
        ),
        rows=tuple(rows),
        note="The article: 153 s on its CPU, 83 s on its GPU.",
    )


def _picture(sizes: Sequence[Size], there: Mapping[str, Sequence[Quantity]], gpu: gpus.Gpu) -> Curves:
    x = tuple(float(one.num_parameters) for one in sizes)
    curves = [
        Curve(name="this CPU, as written", x=x, y=tuple(one.step_s for one in sizes)),
        Curve(name="this CPU, without waiting for batches", x=x, y=tuple(one.step_s - one.waits_s for one in sizes)),
    ]
    curves += [
        Curve(
            name=f"{gpu.name}, {way}",
            x=x,
            y=tuple(one.value for one in times),
            low=tuple(one.low for one in times),
            high=tuple(one.high for one in times),
            predicted=gpu.predicted,
        )
        for way, times in there.items()
    ]
    return Curves(
        title="A step, by the size of the model",
        x_label="parameters",
        x_unit=Unit.COUNT,
        y_label="time of a step",
        y_unit=Unit.SECOND,
        curves=tuple(curves),
        log_x=True,
        log_y=True,
    )


def _story(
    sizes: Sequence[Size], there: Mapping[str, Sequence[Quantity]], gpu: gpus.Gpu, whole_s: float | None
) -> list[str]:
    base = min(range(len(sizes)), key=lambda k: abs(sizes[k].hidden - BASE))
    one, steps = sizes[base], _num_steps()
    cpu_s = whole_s if whole_s is not None else one.step_s * steps
    took = "took" if whole_s is not None else "would take, by its measured steps,"
    gpu_s = there[AS_WRITTEN][base].times(steps)
    verb = "would take" if gpu.predicted else "takes"
    first = (
        f"Ten epochs with {one.hidden if whole_s is None else BASE} hidden units {took} {duration(cpu_s)} on this CPU; "
        f"{gpu.subject} {verb} {quantity(gpu_s)}, {times_as(cpu_s / gpu_s.value)}. (The article: 153 s and 83 s, "
        "1.84x.)"
    )
    return [first, _input(one), _tables_turn(sizes, there, gpu), _growth(sizes, there)]


def _input(one: Size) -> str:
    share = one.waits_s / one.step_s
    return (
        f"With {one.hidden} hidden units {percent(share)} of a step on the CPU is waiting for the batch "
        f"({duration(one.waits_s)} of {duration(one.step_s)}), made image by image in Python. No GPU shortens that, "
        f"so the most that any device could bring is {1 / max(share, 1e-9):.1f}x as long as the data come like this; "
        "kept where the training is, the model is all that is left."
    )


def _tables_turn(sizes: Sequence[Size], there: Mapping[str, Sequence[Quantity]], gpu: gpus.Gpu) -> str:
    x = [float(one.num_parameters) for one in sizes]
    mark = PREDICTED if gpu.predicted else ""
    written = crossing(x, [one.step_s for one in sizes], [one.value for one in there[AS_WRITTEN]])
    kept = crossing(x, [one.step_s - one.waits_s for one in sizes], [one.value for one in there[KEPT]])

    def said(at: float | None) -> str:
        if at is None:
            return f"not up to {x[-1]:,.0f} parameters"
        if at <= x[0]:
            return f"at every size tried, from {x[0]:,.0f} parameters on"
        return f"from about {mark}{at:,.0f} parameters on"

    text = (
        f"{'By these predictions the' if gpu.predicted else 'The'} GPU is ahead {said(written)} as written, and "
        f"{said(kept)} where nobody waits for data on either side."
    )
    if kept is not None and kept <= x[0]:
        return text
    return (
        f"{text} Below that its step is made of calls that cost more than what they compute "
        "(`hotlap lab launch-floor`)."
    )


def _growth(sizes: Sequence[Size], there: Mapping[str, Sequence[Quantity]]) -> str:
    small, large = sizes[0], sizes[-1]
    cpu = (large.step_s - large.waits_s) / (small.step_s - small.waits_s)
    gpu = there[KEPT][-1].value / there[KEPT][0].value
    parameters = large.num_parameters / small.num_parameters
    grows = f"grows {gpu:.1f}-fold" if gpu > 1.1 else "hardly changes"
    return (
        f"From {small.hidden} to {large.hidden:,} hidden units the parameters grow {parameters:.0f}-fold; the CPU's "
        f"step (without its input) grows {cpu:.1f}-fold, the GPU's {grows}: a GPU is fast where there is much to do "
        "at once, and little slower for more of it."
    )

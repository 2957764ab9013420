"""pinning (F2): MNIST in five epochs: what do workers and pinned memory bring, and what do they cost?"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from hotlap import machine
from hotlap.cli.traced import Traced
from hotlap.experiment import statistics
from hotlap.lab import digits, gpus
from hotlap.lab.result import Cell, Quantity, Result, Table, in_words, ratio, seconds
from hotlap.lab.settings import Settings
from hotlap.lab.studies import Compared, gain, mean_s, of_lab, waits_s
from hotlap.record import Run, Study

NUM_EPOCHS = 5
# So few that starting the workers of each epoch is what takes the time: the article's caveat.
SMALL = 2_000
QUICK_ITEMS, QUICK_SMALL = 2_000, 300
BUDGET_S, QUICK_BUDGET_S = 150.0, 5.0

PLAIN, ARTICLE, HOTLAP = "baseline", "the article's two changes", "hotlap's patch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """All that was measured."""

    study: Study
    article: Compared
    small: Compared
    """The article's changes on few images."""
    workers: int
    items: tuple[int, int]
    """Images, and few images."""
    traced: Traced
    gpu: str | None
    """The GPU that trained; None where the CPU did."""
    about_data: str


def run(settings: Settings, doing: Callable[[str], None]) -> Result:
    """Tune the unchanged loop, then compare it with the article's changes."""
    digits.check(settings)
    here = machine.look()
    workers = max(1, min(4, int(here.usable_cores)))
    items, small = (QUICK_ITEMS, QUICK_SMALL) if settings.quick else (digits.NUM_ITEMS, SMALL)
    pairs = 1 if settings.quick else statistics.FEWEST_SHOWN
    with of_lab("mnist.py", doing) as bench:
        data, about_data = digits.prepared(settings, bench.folder, count=items)
        words = ("--data", str(data), "--epochs", str(NUM_EPOCHS))
        whole = bench.asked(*words, "--items", str(items), total_steps=num_steps(items))
        traced = whole.traced()
        study = whole.measured(quick=True, watches=("switches", "shapes", "modules"))
        study = whole.tuned(study, budget_s=settings.budget_s or (QUICK_BUDGET_S if settings.quick else BUDGET_S))
        script = bench.folder / "mnist.py"
        changed = {str(script): article(script.read_text(), workers)}
        few = bench.asked(*words, "--items", str(small), total_steps=num_steps(small))
        known = Known(
            study=study,
            article=whole.compared(changed, base=study.baseline[0], pairs=pairs),
            small=few.compared(changed, base=study.baseline[0], pairs=pairs),
            workers=workers,
            items=(items, small),
            traced=traced,
            gpu=here.gpus[0] if here.gpus else None,
            about_data=about_data,
        )
    return tell(known, settings)


def num_steps(items: int) -> int:
    """Of the whole training."""
    return NUM_EPOCHS * -(-items // digits.BATCH_SIZE)


def article(text: str, workers: int) -> str:
    """The script with the article's two changes: workers with pinned memory, and copies that are not waited for."""
    text = text.replace("shuffle=True)", f"shuffle=True, num_workers={workers}, pin_memory=True)")
    return text.replace(
        "x.to(device), y.to(device)", "x.to(device, non_blocking=True), y.to(device, non_blocking=True)"
    )


def tell(known: Known, settings: Settings) -> Result:
    """The numbers, and what they mean."""
    gpu = gpus.chosen(settings, here=known.gpu)
    there = _predicted(known, gpu.name) if gpu.predicted else {}
    notes = [*gpu.notes, known.about_data]
    if known.gpu is None:
        notes.append("Without a GPU nothing is pinned: of the article's changes only the workers have an effect here.")
    if gain(known.study) is None:
        notes.append("`hotlap tune` found no patch here in its time; --budget gives more.")
    return Result(
        story=tuple(_story(known, there, gpu)),
        tables=(_whole(known, there, gpu),),
        notes=tuple(notes),
        study=known.study,
        gpus=gpu.here,
    )


def _predicted(known: Known, gpu: str) -> dict[str, Quantity]:
    """Way -> the whole training on a GPU whose batches are made as they were made here."""
    base, after = known.study.baseline[0], known.study.after
    # Beside a faster step workers may be what it waits for: each makes a batch as fast as the training's process did.
    ways: dict[str, tuple[Run, float, int]] = {PLAIN: (base, waits_s(base), 0)}
    if known.article.run is not None:
        ways[ARTICLE] = (known.article.run, waits_s(base), known.workers)
    if gain(known.study) is not None and after is not None and after.step_s:
        ways[HOTLAP] = (after, waits_s(after), 0)

    def step(run: Run, making_s: float, workers: int) -> Quantity:
        work = replace(known.traced.work, input_s=making_s, input_workers=workers)
        traced = replace(known.traced, work=work, step_s=mean_s(run))
        return Quantity.of(gpus.there(traced, gpu).step_s, predicted=True)

    return {way: step(*said).times(num_steps(known.items[0])) for way, said in ways.items()}


def _whole(known: Known, there: Mapping[str, Quantity], gpu: gpus.Gpu) -> Table:
    one, result = known.article, gain(known.study)
    rows: list[tuple[Cell, ...]] = [
        (PLAIN, seconds(one.base_s), None, None),
        (ARTICLE, seconds(one.total_s), ratio(one.total), ratio(one.step)),
    ]
    if result is not None:
        rows.append((HOTLAP, None, ratio(result.total_speedup), ratio(result.speedup)))
    on_gpu = (f"on {gpus.an(gpu.name)}",) if there else ()
    return Table(
        title=f"{known.items[0]:,} images, {NUM_EPOCHS} epochs",
        columns=("way", "time", "as fast in all", "as fast a step", *on_gpu),
        rows=tuple((*row, *(there.get(str(row[0])) for _ in on_gpu)) for row in rows),
        note="Processes that take turns; the time from a process's start to its last step, from some hundred steps and "
        "an epoch's start. A ratio is shown from three processes of each on, with its 95% interval. The article: 43 s "
        "in the baseline, under 10 s with its two changes, so 4.3x.",
    )


def _story(known: Known, there: Mapping[str, Quantity], gpu: gpus.Gpu) -> list[str]:
    one, result = known.article, gain(known.study)
    pinned = " and pinned memory" if known.gpu else ""
    first = f"With {known.workers} workers{pinned} the whole training is {in_words(one.total)}."
    first += f" {one.failure}." if one.failure else ""
    if result is not None:
        first += f" With hotlap's patch it is {in_words(result.total_speedup)}."
    told = [
        first + " The article gained 4.3x.",
        f"On {known.items[1]:,} images the article's changes are {in_words(known.small.total)}: workers are started "
        "anew in each epoch.",
    ]
    if there:
        said = ", ".join(f"{one} {way}" for way, one in there.items())
        told.append(f"On {gpus.an(gpu.name)} in this machine: {said}.")
    return told

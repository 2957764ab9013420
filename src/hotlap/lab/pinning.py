"""pinning (F2): MNIST in five epochs: what do workers and pinned memory bring, and what do they cost?"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from hotlap import levers, machine
from hotlap.errors import UserError
from hotlap.experiment import Arm, statistics
from hotlap.lab import digits, gpus
from hotlap.lab.result import Cell, Quantity, Result, Table, Unit, seconds
from hotlap.lab.settings import Settings
from hotlap.lab.studies import Bench, Compared, mean_s, of_lab, waits_s
from hotlap.predict import Workload
from hotlap.record import Interval, Study
from hotlap.source.disk import PatchFiles
from hotlap.units import factor

TITLE = "Pinned memory and workers: letting the next batch travel while this one is trained"
NUM_EPOCHS = 5
# So few that starting the workers of each epoch is what takes the time: the article's caveat.
SMALL = 2_000
QUICK_ITEMS, QUICK_SMALL = 2_000, 300
# Processes of each: from three on an interval is shown.
HEATS, QUICK_HEATS = statistics.FEWEST_SHOWN, 1
BUDGET_S, QUICK_BUDGET_S = 150.0, 5.0

PLAIN, ARTICLE, HOTLAP = "baseline", "the article's two changes", "hotlap's patch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """All that was measured."""

    study: Study
    plain_s: float
    """The whole training of the baseline."""
    copies: Mapping[str, Compared]
    small: Compared
    """The article's changes on few images."""
    workers: int
    items: tuple[int, int]
    """Images, and few images."""
    work: Workload
    gpu: str | None
    """The GPU that trained; None where the CPU did."""
    about_data: str


def run(settings: Settings, doing: Callable[[str], None]) -> Result:
    """Tune the unchanged loop, then compare it with the article's changes and with the patch."""
    digits.check(settings)
    here = machine.look()
    workers = max(1, min(4, int(here.usable_cores)))
    items, small = (QUICK_ITEMS, QUICK_SMALL) if settings.quick else (digits.NUM_ITEMS, SMALL)
    heats = QUICK_HEATS if settings.quick else HEATS
    budget_s = settings.budget_s or (QUICK_BUDGET_S if settings.quick else BUDGET_S)
    with of_lab("mnist.py", doing) as bench:
        data, about_data = digits.prepared(settings, bench.folder, count=items)
        words = ("--data", str(data), "--epochs", str(NUM_EPOCHS))
        whole = bench.asked(*words, "--items", str(items), total_steps=num_steps(items))
        _, work = whole.timed()
        study = whole.tuned(whole.measured(quick=True, watches=("switches", "shapes", "modules")), budget_s=budget_s)
        script = bench.folder / "mnist.py"
        copies = {ARTICLE: Arm(bare=True, replaced={str(script): article(script.read_text(), workers)})}
        patched = _patched(study, bench)
        if patched is not None:
            copies[HOTLAP] = patched
        base = study.baseline[0]
        plain_s, compared = whole.compared(copies, base=base, heats=heats, total_steps=num_steps(items))
        few = bench.asked(*words, "--items", str(small))
        first, _ = few.timed()
        _, on_few = few.compared({ARTICLE: copies[ARTICLE]}, base=first, heats=heats, total_steps=num_steps(small))
    known = Known(
        study=study,
        plain_s=plain_s,
        copies=compared,
        small=on_few[ARTICLE],
        workers=workers,
        items=(items, small),
        work=work,
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


def _patched(study: Study, bench: Bench) -> Arm | None:
    """The copy that the study hands out; None where it hands out none."""
    if not study.patch or study.result is None:
        return None
    script = bench.folder / "mnist.py"
    written = script.read_text()
    try:
        PatchFiles(study=study, home=bench.folder, roots=[bench.folder]).apply(check=False)
    except UserError:
        return None
    texts = {str(script): script.read_text()}
    script.write_text(written)
    settled = max((len(run.first_steps_s) for trial in study.trials for run in trial.runs), default=0)
    return Arm(bare=True, levers=levers.started_with(study.result.levers), replaced=texts, warmup=settled)


def tell(known: Known, settings: Settings) -> Result:
    """The numbers, and what they mean."""
    gpu = gpus.chosen(settings, here=known.gpu)
    there = _predicted(known, gpu.name) if gpu.predicted else {}
    notes = [*gpu.notes, known.about_data]
    if known.gpu is None:
        notes.append("Without a GPU nothing is pinned: of the article's changes only the workers have an effect here.")
    if HOTLAP not in known.copies:
        notes.append("`hotlap tune` found no patch here in its time; --budget gives more.")
    return Result(
        name="pinning",
        title=TITLE,
        story=tuple(_story(known, there, gpu)),
        tables=(_whole(known, there, gpu),),
        notes=tuple(notes),
        study=known.study,
        quick=settings.quick,
        gpus=() if gpu.predicted else (gpu.name,),
    )


def _predicted(known: Known, gpu: str) -> dict[str, Quantity]:
    """Way -> the whole training on a GPU whose batches are made as they were made here."""
    base = known.study.baseline[0]
    # Beside a faster step workers may be what it waits for: each makes a batch as fast as the training's process did.
    ways = {PLAIN: (base, waits_s(base), 0)}
    for way, one in known.copies.items():
        if not one.failure and one.run.step_s:
            making_s, workers = (waits_s(base), known.workers) if way == ARTICLE else (waits_s(one.run), 0)
            ways[way] = (one.run, making_s, workers)
    return {
        way: Quantity.of(
            gpus.there(
                replace(known.work, input_s=making_s, input_workers=workers), gpu, device="cpu", step_s=mean_s(run)
            ).step_s,
            predicted=True,
        ).times(num_steps(known.items[0]))
        for way, (run, making_s, workers) in ways.items()
    }


def _ratio(interval: Interval | None) -> Quantity | None:
    return None if interval is None else Quantity.of(interval, Unit.RATIO)


def _whole(known: Known, there: Mapping[str, Quantity], gpu: gpus.Gpu) -> Table:
    rows: list[tuple[Cell, ...]] = [(PLAIN, seconds(known.plain_s), None, None, *_cell(there, PLAIN))]
    for way, one in known.copies.items():
        rows.append((way, seconds(one.total_s), _ratio(one.total), _ratio(one.step), *_cell(there, way)))
    return Table(
        title=f"{known.items[0]:,} images, {NUM_EPOCHS} epochs",
        columns=("way", "time", "as fast in all", "as fast a step", *((f"on {gpus.an(gpu.name)}",) if there else ())),
        rows=tuple(rows),
        note="Processes that take turns; the time from a process's start to its last step, from some hundred steps and "
        "an epoch's start. A ratio is shown from three processes of each on, with its 95% interval. The article: 43 s "
        "in the baseline, under 10 s with its two changes, so 4.3x.",
    )


def _cell(there: Mapping[str, Quantity], way: str) -> tuple[Cell, ...]:
    return (there.get(way),) if there else ()


def in_words(ratio: Interval | None) -> str:
    """ "1.40x as fast (1.31x to 1.50x)"; what cannot be told apart is said to be so."""
    if ratio is None:
        return "compared too seldom for a ratio"
    span = f"{factor(ratio.mid)} as fast, 95% interval {factor(ratio.low)} to {factor(ratio.high)}"
    if ratio.high < 1:
        return f"slower: {span}"
    return span if ratio.low > 1 else f"no difference shown: {span}"


def _story(known: Known, there: Mapping[str, Quantity], gpu: gpus.Gpu) -> list[str]:
    article_, ours = known.copies[ARTICLE], known.copies.get(HOTLAP)
    first = (
        f"With {known.workers} workers{' and pinned memory' if known.gpu else ''} the whole training is "
        f"{in_words(article_.total)}."
    )
    first += f" {article_.failure}." if article_.failure else ""
    if ours is not None:
        first += f" With hotlap's patch it is {in_words(ours.total)}."
    told = [
        first + " The article gained 4.3x.",
        f"On {known.items[1]:,} images the article's changes are {in_words(known.small.total)}: workers are started "
        "anew in each epoch.",
    ]
    if there:
        said = ", ".join(f"{one} {way}" for way, one in there.items())
        told.append(f"On {gpus.an(gpu.name)} in this machine: {said}.")
    return told

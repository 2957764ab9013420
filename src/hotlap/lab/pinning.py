"""pinning (F2): MNIST in five epochs: what do workers and pinned memory bring, and what do they cost?"""

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from statistics import fmean, median

from hotlap import levers, machine
from hotlap.experiment import statistics
from hotlap.lab import digits, gpus
from hotlap.lab.launching import Finished, bench, waiting_share, waits_s, workload_of
from hotlap.lab.result import Cell, Curve, Curves, Lanes, Quantity, Result, Table, Unit, seconds
from hotlap.lab.settings import Settings
from hotlap.lab.words import an, quantity, times_as
from hotlap.predict import Workload, forecast
from hotlap.record import LeverSpec, Machine, Run
from hotlap.record.order import rounds
from hotlap.report import lanes
from hotlap.units import duration, factor, percent, size

TITLE = "Pinned memory and workers: letting the next batch travel while this one is trained"
NUM_EPOCHS = 5
# Each way trains so often, in a drawn order: one training after the other said 19.72x, and 2.65x five minutes later.
ROUNDS, QUICK_ROUNDS = statistics.FEWEST_SHOWN, 1
# So few that starting the workers of each epoch is what takes the time: the article's caveat.
SMALL = 2_000
# Smaller, for --quick. Not fewer epochs: a cache is filled in the first, and helps in those that follow.
QUICK_ITEMS, QUICK_SMALL = 2_000, 300

PLAIN, ARTICLE, HOTLAP = "as written", "the article's two changes", "under hotlap"
# What `hotlap tune` comes to on this job (benchmarks/results/demo-*.json); those that do not apply here are left out.
LEVERS = ("cached-dataset", "fused-optimizer")
# So many say which levers apply, and what one step does.
_PROFILE_STEPS, _PROFILE_WARMUP = 12, 3
# torch's allocator of pinned memory rounds up to powers of two (pytorch#150517).
_PINNED_ROUND = 2
# Batches that a worker prepares in advance, torch's default.
_PREFETCH = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """All that was measured."""

    finished: Mapping[str, Finished]
    """Way -> its training on the whole data set, then on the small one."""
    again: tuple[Mapping[str, Finished], ...] = ()
    """Further rounds of the same."""
    workers: int
    traced: Workload | None
    """One step, where a GPU must be predicted."""
    gpu: str | None
    """The GPU that trained; None where the CPU did."""
    levers: tuple[str, ...]
    about_data: str


def run(settings: Settings, doing: Callable[[str], None]) -> Result:
    """Train three times, and predict the GPU where there is none."""
    digits.check(settings)
    here = machine.look()
    gpu = here.gpus[0] if here.gpus else None
    workers = max(1, min(4, int(here.usable_cores)))
    items, small = (QUICK_ITEMS, QUICK_SMALL) if settings.quick else (digits.NUM_ITEMS, SMALL)
    with bench("mnist.py") as place:
        data, about_data = digits.prepared(settings, place.results, count=items)
        words: tuple[str, ...] = ("--data", str(data), "--items", str(items), str(small))
        words += ("--epochs", str(NUM_EPOCHS), "--device", "cuda" if gpu else "cpu")
        doing("looking at some steps")
        watches = () if gpu else ("workload",)
        profile = place.run(place.plan(*words, steps=_PROFILE_STEPS, warmup=_PROFILE_WARMUP, watches=watches))
        chosen = _levers(profile, here)
        ways = {
            PLAIN: ("as written", (), ()),
            ARTICLE: (f"with {workers} workers and pinned memory", ("--workers", str(workers), "--pin"), ()),
            HOTLAP: (f"under {', '.join(str(spec['name']) for spec in chosen) or 'no lever'}", (), chosen),
        }
        finished: list[Mapping[str, Finished]] = []
        for order in islice(rounds(len(ways), seed=0), QUICK_ROUNDS if settings.quick else ROUNDS):
            trained = {}
            for way in (list(ways)[k] for k in order):
                what, more, applied = ways[way]
                doing(f"training {NUM_EPOCHS} epochs {what} ({len(finished) + 1})")
                trained[way] = place.finished(*words, *more, levers=applied)
            finished.append({way: trained[way] for way in ways})
        traced = None if gpu else workload_of(profile)
    known = Known(
        finished=finished[0],
        again=tuple(finished[1:]),
        workers=workers,
        traced=traced,
        gpu=gpu,
        levers=tuple(str(spec["name"]) for spec in chosen),
        about_data=about_data,
    )
    return tell(known, settings, epochs=NUM_EPOCHS)


def _levers(profile: Run, here: Machine) -> tuple[LeverSpec, ...]:
    """Those of `LEVERS` that do not refuse this run."""
    found = []
    for name in LEVERS:
        kind = levers.by_name(name)
        lever = next(iter(kind.candidates(profile, here)), None)
        if lever is not None and lever.rejects(profile, here) is None:
            found.append(lever.spec())
    return tuple(found)


def tell(known: Known, settings: Settings, *, epochs: int) -> Result:
    """The numbers, and what they mean."""
    gpu = gpus.chosen(settings, here=known.gpu)
    there = _predicted(known, gpu.name, epochs) if known.traced is not None else {}
    notes = [*gpu.notes, known.about_data]
    if known.gpu is None:
        notes.append("Without a GPU nothing is pinned: of the article's changes only the workers have an effect here.")
    applied = ", ".join(known.levers) or "none of the levers (all refused)"
    notes.append(f"Under hotlap means: {applied}. `hotlap tune` finds such levers for a script and proves them.")
    return Result(
        name="pinning",
        title=TITLE,
        story=tuple(_story(known, there, gpu, epochs)),
        tables=(_whole(known, there, gpu, epochs), _small(known), _memory(known)),
        pictures=_pictures(known),
        notes=tuple(notes),
        quick=settings.quick,
        gpus=() if gpu.predicted else (gpu.name,),
    )


def whole_s(one: Finished) -> float:
    """Seconds of the training on the whole data set, by the script's own clock."""
    return float(one.told["trainings"][0]["seconds"])


def small_s(one: Finished) -> float:
    """The same on the small one."""
    return float(one.told["trainings"][-1]["seconds"])


def took(known: Known, way: str, took_s: Callable[[Finished], float]) -> float:
    """Seconds, in the median of the rounds."""
    return median(took_s(one[way]) for one in (known.finished, *known.again))


def as_fast(known: Known, way: str, took_s: Callable[[Finished], float]) -> Quantity:
    """As the training as written, round by round; with an interval where the rounds are enough for one."""
    logs = [math.log(took_s(one[PLAIN]) / took_s(one[way])) for one in (known.finished, *known.again)]
    interval = statistics.interval(logs) if len(logs) >= statistics.FEWEST_SHOWN and way != PLAIN else None
    if interval is None:
        return Quantity(value=math.exp(fmean(logs)), unit=Unit.RATIO)
    return Quantity.of(interval, Unit.RATIO)


def _num_steps(one: Finished, epochs: int) -> int:
    return epochs * -(-int(one.told["trainings"][0]["num_items"]) // digits.BATCH_SIZE)


def _predicted(known: Known, gpu: str, epochs: int) -> dict[str, Quantity]:
    """Way -> the whole training on a GPU whose batches are made as they were made here."""
    assert known.traced is not None
    name, devices = gpus.here()
    # Beside a faster step workers may be what it waits for: each makes a batch as fast as the training's process did.
    making_s = waits_s(known.finished[PLAIN].run)
    inputs = {
        PLAIN: (making_s, 0),
        ARTICLE: (making_s, known.workers),
        HOTLAP: (waits_s(known.finished[HOTLAP].run), 0),
    }
    found = {}
    for way, one in known.finished.items():
        input_s, workers = inputs[way]
        work = replace(known.traced, input_s=input_s, input_workers=workers)
        prediction = forecast(
            work, target=gpu, measured_on=name, measured_step_s=one.run.median_step_s(), devices=devices
        )
        found[way] = Quantity.of(prediction.step_s, Unit.SECOND, predicted=True).times(_num_steps(one, epochs))
    return found


def _whole(known: Known, there: Mapping[str, Quantity], gpu: gpus.Gpu, epochs: int) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for way, one in known.finished.items():
        waiting = Quantity(value=waiting_share(one.run), unit=Unit.SHARE)
        cells: tuple[Cell, ...] = (way, seconds(took(known, way, whole_s)), as_fast(known, way, whole_s), waiting)
        rows.append((*cells, there[way]) if there else cells)
    items = known.finished[PLAIN].told["trainings"][0]["num_items"]
    return Table(
        title=f"{items:,} images, {epochs} epochs",
        columns=("way", "time", "as fast", "waiting for batches", *((f"on {an(gpu.name)}",) if there else ())),
        rows=tuple(rows),
        note="The article: 43 s as written, under 10 s with its two changes, so 4.3x.",
    )


def _small(known: Known) -> Table:
    items = known.finished[PLAIN].told["trainings"][-1]["num_items"]
    return Table(
        title=f"The same with {items:,} images",
        columns=("way", "time", "as fast"),
        rows=tuple((way, seconds(took(known, way, small_s)), as_fast(known, way, small_s)) for way in known.finished),
        note="Workers are started anew in each epoch; on so few images that is all there is.",
    )


def _memory(known: Known) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for way, one in known.finished.items():
        peak = max((used for _, used in one.memory), default=None)
        pinned = max(int(part["pinned_bytes"]) for part in one.told["trainings"])
        cell: Cell = Quantity(value=pinned, unit=Unit.BYTE)
        if known.gpu is None and way == ARTICLE and known.traced is not None:
            cell = Quantity(
                value=pinned_at_most(known.traced.batch_bytes, known.workers), unit=Unit.BYTE, predicted=True
            )
        rows.append((way, None if peak is None else Quantity(value=peak, unit=Unit.BYTE), cell))
    return Table(
        title="Memory",
        columns=("way", "at most, all processes", "pinned, at most"),
        rows=tuple(rows),
        note="Pages that several processes share count once. Pinned memory can be neither swapped nor moved.",
    )


def pinned_at_most(batch_bytes: float | None, workers: int) -> float:
    """All batches that workers have ready, and one that is being trained, each rounded up as torch does."""
    rounded = 1
    while rounded < (batch_bytes or 0):
        rounded *= _PINNED_ROUND
    return float(rounded * (workers * _PREFETCH + 1))


def _pictures(known: Known) -> tuple[Lanes | Curves, ...]:
    plain = known.finished[PLAIN].run
    found: list[Lanes | Curves] = []
    for way in (ARTICLE, HOTLAP):
        timeline = lanes.timeline(plain, known.finished[way].run)
        if timeline is not None:
            found.append(
                Lanes(title=f"The same time, as written and {_lower(way)}", timeline=timeline, names=(PLAIN, way))
            )
    curves = tuple(
        Curve(name=way, x=tuple(at for at, _ in one.memory), y=tuple(float(used) for _, used in one.memory))
        for way, one in known.finished.items()
        if one.memory
    )
    if curves:
        found.append(
            Curves(
                title="Memory of all processes",
                x_label="time since the start; importing and loading come first",
                x_unit=Unit.SECOND,
                y_label="memory",
                y_unit=Unit.BYTE,
                curves=curves,
            )
        )
    return tuple(found)


def _lower(way: str) -> str:
    return f"with {way}" if way == ARTICLE else way


def _story(known: Known, there: Mapping[str, Quantity], gpu: gpus.Gpu, epochs: int) -> list[str]:
    plain = known.finished[PLAIN]
    base, article_s, ours_s = (took(known, way, whole_s) for way in (PLAIN, ARTICLE, HOTLAP))
    waiting = waiting_share(plain.run)
    alike = _losses(plain, known.finished[HOTLAP])
    first = (
        f"As written, {epochs} epochs take {duration(base)} here; {percent(waiting)} of each step the training waits "
        f"for its batch, which the same process makes. With {known.workers} workers"
        f"{' and pinned memory' if known.gpu else ''} they take {duration(article_s)} "
        f"({_in_words(as_fast(known, ARTICLE, whole_s))}), and under hotlap {duration(ours_s)} "
        f"({_in_words(as_fast(known, HOTLAP, whole_s))}). The article gained 4.3x. {alike}"
    )
    return [first, _why(known), _caveats(known), *_there(there, gpu)]


def _in_words(ratio: Quantity) -> str:
    """ "2.31x as fast, between 2.10x and 2.54x"; without an interval: from one training of each."""
    if ratio.low is None or ratio.high is None:
        return f"{times_as(ratio.value)} in one training of each"
    return f"{times_as(ratio.value)}, between {factor(ratio.low)} and {factor(ratio.high)}"


def _losses(plain: Finished, ours: Finished) -> str:
    """How far the two trainings came out alike."""
    a, b = (one.told["trainings"][0]["losses"] for one in (plain, ours))
    if a == b:
        return "The mean loss of each epoch is the same to the last bit."
    gap = max(abs(x - y) / abs(x) for x, y in zip(a, b, strict=True))
    return (
        f"The mean losses of the epochs differ by {gap:.0e} of their value at most: the same samples, another rounding."
    )


def _why(known: Known) -> str:
    article = known.finished[ARTICLE].run
    cores = os.cpu_count() or 1
    waiting = waiting_share(article)
    return (
        f"Workers make batches beside the training: with {known.workers} of them on {cores} cores a step still waits "
        f"{percent(waiting)} of the time, because making a batch image by image in Python costs as much as before and "
        "must travel between processes. hotlap does away with that work: each image is made once and kept, and a "
        "batch is then one copy. That is why there is less to overlap, and why it needs no workers."
    )


def _caveats(known: Known) -> str:
    plain, article = (took(known, way, small_s) for way in (PLAIN, ARTICLE))
    peaks = {way: max((used for _, used in one.memory), default=0) for way, one in known.finished.items()}
    more = peaks[ARTICLE] - peaks[PLAIN]
    items = known.finished[PLAIN].told["trainings"][-1]["num_items"]
    change = _in_words(as_fast(known, ARTICLE, small_s))
    memory = f" The workers take {size(more)} of memory more." if more > 0 else ""
    return (
        f"The article's caveats hold here: on {items:,} images its changes take {duration(article)} instead of "
        f"{duration(plain)} ({change}).{memory}"
        if article > 0.9 * plain
        else f"Even on {items:,} images the changes pay here: {duration(article)} instead of {duration(plain)} "
        f"({change}).{memory}"
    )


def _there(there: Mapping[str, Quantity], gpu: gpus.Gpu) -> list[str]:
    if not there:
        return []
    return [
        f"On {an(gpu.name)} in this machine the same would take {quantity(there[PLAIN])} as written, "
        f"{quantity(there[ARTICLE])} with the changes and {quantity(there[HOTLAP])} under hotlap: a faster device "
        "does not make batches faster, so it gains most where they are ready."
    ]

"""transformer (F0): why do the cores stay at 60%, what helps here, and what would other GPUs do?"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hotlap import levers, machine, rules
from hotlap.experiment import Arm, Design, Executor, Sizes, statistics
from hotlap.experiment.sweep import thread_sweep
from hotlap.lab import gpus
from hotlap.lab.launching import Bench, bench, workload_of
from hotlap.lab.result import Bars, Cell, Curve, Curves, Quantity, Result, Table, Unit, count
from hotlap.lab.settings import Settings
from hotlap.lab.words import quantity
from hotlap.levers import Numerics, Scope
from hotlap.machine import cores as processors
from hotlap.machine import threads
from hotlap.predict import Workload, forecast
from hotlap.record import Cores, Finding, Interval, Machine, Phase, Prediction, Run, Sweep
from hotlap.tune import Options
from hotlap.units import duration, factor, percent

TITLE = "What will be the bottleneck? A transformer on a CPU whose cores seem half idle"
# The question gives the layers; batch and length are ours, so that a step takes about a second on a small machine.
LAYERS, BATCH, LENGTH, VOCABULARY = 32, 8, 32, 10_000
QUICK_LAYERS, QUICK_BATCH, QUICK_LENGTH, QUICK_VOCABULARY = 2, 4, 16, 1_000
# The GPUs that the question asks for.
COUNTS = (1, 2, 4)
# Time for trying levers, and for the sweep over numbers of threads.
BUDGET_S, SWEEP_S = 75.0, 60.0
QUICK_BUDGET_S, QUICK_SWEEP_S = 6.0, 6.0
_STEPS, _QUICK_STEPS, _WARMUP = 10, 8, 2
# The first step of a block contains the switch and does not count.
_BLOCK = 3
_FEWEST_BLOCKS, _MOST_BLOCKS = 3, 8
# Processes: three give an interval that holds what it promises (hotlap.experiment.statistics), more narrow it.
_FEWEST, _MOST = 3, 6

NUMBERS = {
    Numerics.EXACT: "none: equal to the last bit",
    Numerics.ROUNDING: "another rounding",
    Numerics.STATISTICAL: "other numbers, a like training",
    Numerics.RECIPE: "another training",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A lever that was switched on and off in turns."""

    name: str
    speedup: Interval
    numerics: Numerics
    num_processes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """All that was measured."""

    run: Run
    work: Workload
    here: Machine
    sweep: Sweep
    tried: tuple[Tried, ...]
    refused: tuple[tuple[str, str], ...]
    """Lever, and why it was not tried."""
    findings: tuple[Finding, ...]
    shape: tuple[int, int, int]
    """Layers, batch, length."""


def run(settings: Settings, doing: Callable[[str], None]) -> Result:
    """Measure the model here, try what may help, and predict the GPUs."""
    targets = gpus.names(settings)
    layers, batch, length = (
        given or usual
        for given, usual in zip(
            (settings.layers, settings.batch, settings.length),
            (QUICK_LAYERS, QUICK_BATCH, QUICK_LENGTH) if settings.quick else (LAYERS, BATCH, LENGTH),
            strict=True,
        )
    )
    vocabulary = QUICK_VOCABULARY if settings.quick else VOCABULARY
    sizes = {"layers": layers, "batch": batch, "length": length, "vocabulary": vocabulary}
    words = tuple(word for name, value in sizes.items() for word in (f"--{name}", str(value)))
    here = machine.look()
    with bench("transformer.py") as place:
        doing(f"training {layers} layers on a batch of {batch} x {length}")
        steps = _QUICK_STEPS if settings.quick else _STEPS
        watches = ("switches", "modules", "cpu", "workload")
        found = place.run(place.plan(*words, steps=steps, warmup=_WARMUP, watches=watches))
        sweep = _sweep(place, words, found, doing, limit_s=QUICK_SWEEP_S if settings.quick else SWEEP_S)
        budget_s = settings.budget_s or (QUICK_BUDGET_S if settings.quick else BUDGET_S)
        tried, refused = _try(place, words, found, here, doing, budget_s=budget_s)
    known = Known(
        run=found,
        work=workload_of(found),
        here=here,
        sweep=sweep,
        tried=tried,
        refused=refused,
        findings=rules.check(found, here),
        shape=(layers, batch, length),
    )
    return tell(known, settings, targets=targets)


def blocks_within(limit_s: float, round_s: float) -> int:
    """Blocks for each number of threads, so that all rounds take about `limit_s`."""
    return max(_FEWEST_BLOCKS, min(_MOST_BLOCKS, int(limit_s / max(round_s, 1e-9))))


def _sweep(place: Bench, words: Sequence[str], found: Run, doing: Callable[[str], None], *, limit_s: float) -> Sweep:
    here: Cores = processors.look()
    counts = threads.counts(here)
    if found.device != "cpu":
        return threads.explain((), here)
    doing(f"training with {', '.join(map(str, counts))} threads in turns")
    # At worst nothing but the number of threads counts.
    step_s, usual = found.median_step_s(), found.num_threads or counts[-1]
    round_s = sum(_BLOCK * step_s * max(1.0, usual / each) for each in counts)
    plan = place.plan(*words, steps=_BLOCK * blocks_within(limit_s, round_s), warmup=_WARMUP, block=_BLOCK)
    return thread_sweep(
        place.launcher, plan, counts, cores=here, default_threads=found.num_threads, limit_s=3 * limit_s + 60.0
    )


def _try(
    place: Bench, words: Sequence[str], found: Run, here: Machine, doing: Callable[[str], None], *, budget_s: float
) -> tuple[tuple[Tried, ...], tuple[tuple[str, str], ...]]:
    """Levers that can be switched between steps, in turns with the script as written, process after process."""
    chosen, refused = _candidates(found, here)
    if not chosen:
        return (), refused
    doing(f"trying {', '.join(one.title() for one in chosen)}")
    step_s = found.median_step_s()
    rounds = blocks_within(budget_s / _FEWEST, _BLOCK * step_s * (len(chosen) + 1))
    options = Options(command=place.command(*words), cwd=str(place.folder), title="the transformer")
    sizes = Sizes(
        step_s=step_s,
        setup_s=found.setup_s or 5.0,
        block=_BLOCK,
        steps=_BLOCK * rounds,
        warmup=_WARMUP,
        evidence_steps=0,
        together=1,
        cores=here.usable_cores,
    )
    executor = Executor(place.launcher, options.plan, sizes, limit=lambda estimate_s: 3 * estimate_s + 120.0)
    design = Design(arms=(Arm(), *(Arm(levers=(one.spec(),)) for one in chosen)), switched=True)
    ratios: list[list[float]] = [[] for _ in chosen]
    spent_s = 0.0
    for number in range(_MOST):
        next_s = executor.estimate_s(len(chosen) + 1, switched=True)
        if number >= _FEWEST and spent_s + next_s > budget_s:
            break
        heat = executor.heat(design)
        spent_s += next_s
        for k, ratio in enumerate(heat.log_ratios):
            if ratio is not None:
                ratios[k].append(ratio)
            elif heat.failures[k]:
                refused += ((chosen[k].name, str(heat.failures[k])),) if number == 0 else ()
    tried = tuple(
        Tried(name=one.title(), speedup=speedup, numerics=one.numerics, num_processes=len(ratios[k]))
        for k, one in enumerate(chosen)
        if (speedup := statistics.interval(ratios[k]) if len(ratios[k]) >= _FEWEST else None) is not None
    )
    return tuple(sorted(tried, key=lambda one: -one.speedup.mid)), refused


def _candidates(found: Run, here: Machine) -> tuple[list[levers.Lever], tuple[tuple[str, str], ...]]:
    """Levers worth a trial, and why others are not. Numbers of threads are swept apart."""
    chosen: list[levers.Lever] = []
    refused: list[tuple[str, str]] = []
    for kind in levers.ALL:
        if kind.scope is not Scope.STEP or kind.name == "threads":
            continue
        lever = next(iter(kind.candidates(found, here)), None) or kind()
        why = lever.rejects(found, here)
        if why is not None:
            refused.append((kind.name, why))
        elif lever.saves_at_most_s(found, ()) > 0:
            chosen.append(lever)
    return chosen, tuple(refused)


def tell(known: Known, settings: Settings, *, targets: Sequence[str]) -> Result:
    """The numbers, and what they mean."""
    predicted = _predicted(known, targets)
    tables = [_threads(known.sweep)] if known.sweep.times else []
    tables += [_levers(known)] if known.tried or known.refused else []
    tables += [_forecasts(known, predicted)]
    layers, batch, length = known.shape
    assumed = dict.fromkeys(note for one in predicted for note in one.assumptions)
    return Result(
        name="transformer",
        title=TITLE,
        story=tuple(_story(known, predicted)),
        tables=tuple(tables),
        pictures=_pictures(known, predicted),
        notes=(
            f"The question's model with {layers} layers ({(known.work.parameter_bytes or 0) / 4e6:.0f} million "
            f"parameters), {batch} sequences of {length} tokens a step: batch and length are ours, --batch and "
            "--length change them.",
            *(f"assumed: {note}" for note in assumed),
            *known.sweep.notes,
        ),
        quick=settings.quick,
        gpus=known.here.gpus,
    )


def _predicted(known: Known, targets: Sequence[str]) -> list[Prediction]:
    name, devices = gpus.measured_on(known.run.device)
    return [
        forecast(
            known.work,
            target=target,
            count=number,
            measured_on=name,
            measured_step_s=known.run.median_step_s() if name is not None else None,
            devices=devices,
        )
        for target in targets
        for number in COUNTS
    ]


def _threads(sweep: Sweep) -> Table:
    base = sweep.times[0].step_s.mid
    rows: list[tuple[Cell, ...]] = [
        (
            count(one.threads),
            Quantity.of(one.step_s, Unit.SECOND),
            Quantity(value=base / one.step_s.mid, unit=Unit.RATIO),
            Quantity(value=base / one.step_s.mid / one.threads * sweep.times[0].threads, unit=Unit.SHARE),
        )
        for one in sweep.times
    ]
    return Table(
        title="The same step with several numbers of threads, in turns within one process",
        columns=("threads", "a step", f"beside {sweep.times[0].threads}", "efficiency"),
        rows=tuple(rows),
    )


def _levers(known: Known) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (
            one.name,
            Quantity.of(one.speedup, Unit.RATIO),
            verdict(one.speedup),
            NUMBERS[one.numerics],
        )
        for one in known.tried
    ]
    rows += [(name, None, "not tried", why) for name, why in known.refused]
    return Table(
        title="What can be switched on this CPU",
        columns=("lever", "as fast", "so it", "change of the numbers, or why not"),
        rows=tuple(rows),
        note="Switched on and off every few steps within a process; the interval (95%) is over processes. That "
        "training is "
        "unharmed is for `hotlap tune` to show: it compares losses, samples and updates.",
    )


def verdict(speedup: Interval) -> str:
    """What an interval says."""
    if speedup.low > 1:
        return "helps"
    return "hurts" if speedup.high < 1 else "cannot be told from nothing"


def _forecasts(known: Known, predicted: Sequence[Prediction]) -> Table:
    step_s = known.run.median_step_s()
    rows: list[tuple[Cell, ...]] = []
    for one in predicted:
        there = Quantity.of(one.step_s, Unit.SECOND, predicted=True)
        samples = there.into(step_s * one.count)
        efficiency = Quantity(value=one.efficiency or 1.0, unit=Unit.SHARE, predicted=True) if one.count > 1 else None
        rows.append((one.device, count(one.count), there, samples, efficiency, one.bound_by))
    return Table(
        title="On GPUs that are not here",
        columns=("device", "number", "a step", "samples a second, beside here", "efficiency", "bound by"),
        rows=tuple(rows),
        note="Each GPU has the batch that this machine has.",
    )


def _pictures(known: Known, predicted: Sequence[Prediction]) -> tuple[Curves | Bars, ...]:
    bars = [("this machine, as written", Quantity(value=known.run.median_step_s(), unit=Unit.SECOND))]
    bars += [(f"{one.count} x {one.device}", Quantity.of(one.step_s, Unit.SECOND, predicted=True)) for one in predicted]
    there = Bars(title="A step here, and where it is predicted", unit=Unit.SECOND, bars=tuple(bars), log=True)
    times = known.sweep.times
    if len(times) < 2:
        return (there,)
    x = tuple(float(one.threads) for one in times)
    base = times[0].step_s.mid * times[0].threads
    curves = (
        Curve(
            name="measured",
            x=x,
            y=tuple(one.step_s.mid for one in times),
            low=tuple(one.step_s.low for one in times),
            high=tuple(one.step_s.high for one in times),
        ),
        Curve(name="if every thread counted in full", x=x, y=tuple(base / each for each in x)),
    )
    return (
        Curves(
            title="A step, by the number of threads",
            x_label="threads",
            x_unit=Unit.COUNT,
            y_label="time of a step",
            y_unit=Unit.SECOND,
            curves=curves,
        ),
        there,
    )


def _story(known: Known, predicted: Sequence[Prediction]) -> list[str]:
    told = [_step(known)]
    if known.sweep.why:
        told.append(f"{known.sweep.why}{_seen_busy(known.run)}")
    told.append(_helps(known))
    told.append(_others(known, predicted))
    remark = next((one for one in known.findings if one.code == "attention-over-batch"), None)
    if remark is not None:
        told.append(
            f"A remark about the model itself. {remark.evidence} The samples of a batch see each other, the positions "
            "of one sample do not: with `batch_first=True` the encoder does what was meant."
        )
    return told


def _step(known: Known) -> str:
    run, work = known.run, known.work
    step_s = run.median_step_s()
    shares = {phase: run.share(phase) or 0.0 for phase in (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)}
    parts = ", ".join(f"{percent(share)} {phase.value}" for phase, share in shares.items())
    text = (
        f"A step takes {duration(step_s)} here ({parts}) for {work.flop / 1e9:,.0f} billion operations in "
        f"{work.num_kernels:,.0f} operators: {work.flop / step_s / 1e9:,.0f} GFLOP/s."
    )
    if work.parameter_bytes:
        text += (
            f" The optimizer alone passes over {work.parameter_bytes / 4e6:.0f} million parameters with their two "
            "averages and gradients: that is memory, not arithmetic, and more cores hardly speed it up."
        )
    return text


def _seen_busy(run: Run) -> str:
    """What the system itself counted, where it was asked."""
    if run.cpu is None:
        return ""
    return f" Counted while the steps went on: {run.cpu.main:.1f} of {run.cpu.usable_cores:g} cores at work."


def _helps(known: Known) -> str:
    gains = [one for one in known.tried if one.speedup.low > 1]
    if not gains:
        names = ", ".join(one.name for one in known.tried)
        return f"Of what was tried here ({names}) nothing shows a gain." if names else "Nothing could be tried here."
    told = ", ".join(f"{one.name} {factor(one.speedup.mid)} ({NUMBERS[one.numerics]})" for one in gains)
    return f"What helps on this CPU: {told}."


def _others(known: Known, predicted: Sequence[Prediction]) -> str:
    one, *more = predicted
    step_s = known.run.median_step_s()
    there = Quantity.of(one.step_s, Unit.SECOND, predicted=True)
    text = (
        f"One {one.device} would take {quantity(there)} for the same step, {quantity(there.into(step_s))} as fast as "
        f"here; it would be bound by {one.bound_by}."
    )
    same = [other for other in more if other.device == one.device]
    if same:
        told = ", ".join(
            f"{other.count} of them train {factor(other.count * one.step_s.mid / other.step_s.mid)} as many samples a "
            "second"
            for other in same
        )
        text += f" {told[0].upper()}{told[1:]}, each with a batch of its own."
    if one.bound_by in ("host", "launch"):
        text += " At this size the calls themselves are the limit there: a larger batch is nearly free on a GPU."
    return text

"""lorenz (F4): a neural ODE of the Lorenz system: how long does an iteration take, and with what?"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from statistics import median

from hotlap.lab import gpus
from hotlap.lab.children import ask
from hotlap.lab.result import Bars, Cell, Curve, Curves, Quantity, Result, Table, Unit, count, seconds
from hotlap.lab.settings import Settings
from hotlap.lab.words import an, quantity, times_as
from hotlap.machine.figures import median_interval
from hotlap.predict import Workload, forecast
from hotlap.record import decode
from hotlap.units import duration

TITLE = "A neural ODE of the Lorenz system: a thousand iterations of a network that hardly computes anything"
# The question's.
NUM_ITERATIONS = 1000
QUICK_ITERATIONS = 300

TORCHDIFFEQ, DIFFRAX = "torchdiffeq", "diffrax"
ODEINT, FIT = "hotlap.small.odeint in a torch loop", "hotlap.small, NeuralODE.fit"
# Packages that one of them needs.
_NEEDS = {TORCHDIFFEQ: ("torchdiffeq",), DIFFRAX: ("diffrax", "optax")}
_METHODS = {TORCHDIFFEQ: "dopri5", DIFFRAX: "Tsit5", ODEINT: "tsit5", FIT: "tsit5"}
# A contender that is not through after so long ends with the iterations it has made.
_LIMIT_S, _QUICK_LIMIT_S = 25.0, 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One contender."""

    way: str
    iterations: int
    limit_s: float
    device: str = "cpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Its training."""

    iteration_s: tuple[float, ...]
    """Means of successive stretches of iterations; compiling is not among them."""
    losses: tuple[float, ...]
    """Before each update."""
    times: tuple[float, ...]
    """At which the trajectory is given."""
    truth: tuple[tuple[float, float, float], ...]
    fit: tuple[tuple[float, float, float], ...]
    """After the last iteration."""
    first_s: float
    """The first call: tracing and compiling."""
    workload: str | None = None
    """Of one iteration, as JSON."""
    gpu: str | None = None
    """Name of a GPU that torch can use here."""
    native: bool = True


def run(settings: Settings, doing: Callable[[str], None]) -> Result:
    """Train with each, one after the other, on one thread: the network has no work for a second one."""
    iterations, limit_s = (QUICK_ITERATIONS, _QUICK_LIMIT_S) if settings.quick else (NUM_ITERATIONS, _LIMIT_S)
    missing = [way for way, needs in _NEEDS.items() if not all(map(find_spec, needs))]
    found = {}
    for way in (TORCHDIFFEQ, DIFFRAX, ODEINT, FIT):
        if way in missing:
            continue
        doing(f"training with {way}")
        question = Question(way=way, iterations=iterations, limit_s=limit_s)
        found[way] = ask("ode", question, Answer, threads=1)
    here = next(iter(found.values())).gpu
    there = None
    if here is not None:
        doing(f"training on the {here}")
        way = TORCHDIFFEQ if TORCHDIFFEQ in found else ODEINT
        question = Question(way=way, iterations=iterations, limit_s=limit_s, device="cuda")
        there = ask("ode", question, Answer, threads=1)
    return tell(found, settings, missing=missing, there=there)


def tell(found: Mapping[str, Answer], settings: Settings, *, missing: Sequence[str], there: Answer | None) -> Result:
    """The numbers, and what they mean."""
    gpu = gpus.chosen(settings, here=None if there is None else there.gpu)
    traced = TORCHDIFFEQ if TORCHDIFFEQ in found else ODEINT
    on_gpu = _on_gpu(found[traced], there, gpu)
    notes = [
        *gpu.notes,
        "dy/dt = net(y), net = 3-100-3 with tanh; t in (0, 1), 101 points, u0 = (1, 0, 0), sigma 10, rho 28, beta "
        "8/3; sum of squares, Adam(0.01); tolerances 1e-3 and 1e-6, float32, one thread; all start from the same "
        "weights.",
        *(f"{way} is not installed: pip install {' '.join(_NEEDS[way])} brings it into the table." for way in missing),
    ]
    if not all(one.native for one in found.values()):
        notes.append("hotlap was installed without its native core, so hotlap.small ran over torch's operators.")
    return Result(
        name="lorenz",
        title=TITLE,
        story=tuple(_story(found, on_gpu, gpu, traced)),
        tables=(_table(found, on_gpu, gpu, traced),),
        pictures=(_bars(found, on_gpu, gpu, traced), _losses(found), *_trajectory(found)),
        notes=tuple(notes),
        quick=settings.quick,
        gpus=() if gpu.predicted else (gpu.name,),
    )


def iteration(one: Answer) -> Quantity:
    """Of the stretches that were timed."""
    return Quantity.of(median_interval(one.iteration_s), Unit.SECOND)


def _on_gpu(one: Answer, there: Answer | None, gpu: gpus.Gpu) -> Quantity | None:
    if there is not None:
        return iteration(there)
    if one.workload is None:
        return None
    work = decode(one.workload.encode(), Workload).validated()
    return Quantity.of(forecast(work, target=gpu.name).step_s, Unit.SECOND, predicted=True)


def _table(found: Mapping[str, Answer], on_gpu: Quantity | None, gpu: gpus.Gpu, traced: str) -> Table:
    slowest = found[traced]
    base = iteration(slowest).value
    rows: list[tuple[Cell, ...]] = [
        (
            way,
            _METHODS[way],
            iteration(one),
            Quantity(value=base / iteration(one).value, unit=Unit.RATIO),
            seconds(iteration(one).value * NUM_ITERATIONS),
            count(len(one.losses)),
            Quantity(value=one.losses[-1], unit=Unit.NUMBER),
        )
        for way, one in found.items()
    ]
    if on_gpu is not None:
        whole = on_gpu.times(NUM_ITERATIONS)
        rows.append((f"{traced} on {an(gpu.name)}", _METHODS[traced], on_gpu, on_gpu.into(base), whole, None, None))
    return Table(
        title="One training iteration: solve, gradient, update",
        columns=("with", "method", "an iteration", f"beside {traced}", "a thousand", "made here", "last loss"),
        rows=tuple(rows),
        note="The question: orders of magnitude faster on a CPU with a lean path for small networks than on a Tesla "
        "K40c.",
    )


def _bars(found: Mapping[str, Answer], on_gpu: Quantity | None, gpu: gpus.Gpu, traced: str) -> Bars:
    bars = [(way, iteration(one)) for way, one in found.items()]
    if on_gpu is not None:
        bars.append((f"{traced} on {an(gpu.name)}", on_gpu))
    return Bars(title="An iteration", unit=Unit.SECOND, bars=tuple(bars), log=True)


def _losses(found: Mapping[str, Answer]) -> Curves:
    """By the time that has passed."""
    curves = []
    for way, one in found.items():
        each_s = median(one.iteration_s)
        # On a logarithmic axis the first thousand is enough, thinned towards its end.
        places = sorted({min(len(one.losses) - 1, round(1.05**k) - 1) for k in range(200)})
        curves.append(
            Curve(
                name=way,
                x=tuple((k + 1) * each_s for k in places),
                y=tuple(one.losses[k] for k in places),
            )
        )
    return Curves(
        title="The loss, by the time that has passed",
        x_label="time, starting and compiling left out",
        x_unit=Unit.SECOND,
        y_label="sum of squares",
        y_unit=Unit.NUMBER,
        curves=tuple(curves),
        log_x=True,
        log_y=True,
    )


def _trajectory(found: Mapping[str, Answer]) -> tuple[Curves, ...]:
    one = found.get(FIT)
    if one is None:
        return ()
    curves = []
    for axis, name in enumerate("xyz"):
        curves.append(Curve(name=f"{name}, true", x=one.times, y=tuple(point[axis] for point in one.truth)))
        fit = tuple(point[axis] for point in one.fit)
        curves.append(Curve(name=f"{name}, fitted", x=one.times, y=fit, predicted=False))
    return (
        Curves(
            title=f"The trajectory after {len(one.losses):,} iterations",
            x_label="t",
            x_unit=Unit.NUMBER,
            y_label="x, y, z",
            y_unit=Unit.NUMBER,
            curves=tuple(curves),
        ),
    )


def _story(found: Mapping[str, Answer], on_gpu: Quantity | None, gpu: gpus.Gpu, traced: str) -> list[str]:
    ours, base = iteration(found[FIT]).value, iteration(found[traced]).value
    others = {way: iteration(one).value for way, one in found.items() if way in (TORCHDIFFEQ, DIFFRAX)}
    first = f"An iteration takes {duration(ours)} with hotlap.small's fit on one core of this machine"
    told = [f"{duration(each)} with {way} ({times_as(each / ours)})" for way, each in others.items()]
    first += f", {' and '.join(told)}." if told else "."
    first += f" A thousand of them: {duration(ours * NUM_ITERATIONS)} instead of {duration(base * NUM_ITERATIONS)}."
    return [first, _why(found, on_gpu, gpu, traced), _quality(found)]


def _why(found: Mapping[str, Answer], on_gpu: Quantity | None, gpu: gpus.Gpu, traced: str) -> str:
    base = iteration(found[traced]).value
    one = found[traced]
    text = ""
    if one.workload is not None:
        work = decode(one.workload.encode(), Workload).validated()
        text = (
            f"In {traced} an iteration is {work.num_kernels:,.0f} operators, {duration(base / work.num_kernels)} each "
            f"with the Python around them; all their arithmetic ({work.flop / 1e6:.2g} million operations) would take "
            f"a core some {duration(work.flop / 1e10)}. "
        )
    text += "So what counts is not how fast a device computes but how little is done around each call. "
    if on_gpu is not None:
        verb = "would take" if on_gpu.predicted else "takes"
        text += (
            f"That is why a GPU does not help: the same loop {verb} {quantity(on_gpu)} an iteration on {an(gpu.name)}, "
            "for its host has the same calls to make and each costs a launch. "
        )
    return text + "hotlap.small does solve, gradient and update of all iterations in one native call."


def _quality(found: Mapping[str, Answer]) -> str:
    ours = found[FIT]
    text = (
        f"After {len(ours.losses):,} iterations the sum of squares has gone from {ours.losses[0]:.4g} to "
        f"{ours.losses[-1]:.4g}"
    )
    same = [(way, one) for way, one in found.items() if way != FIT and len(one.losses) >= 2]
    if not same:
        return f"{text}."
    at = min(len(ours.losses), *(len(one.losses) for _, one in same)) - 1
    told = ", ".join(f"{one.losses[at]:.4g} with {way}" for way, one in same)
    return (
        f"{text}. After {at + 1:,} it was {ours.losses[at]:.4g}, and {told}: the same training, up to the solver's "
        "tolerance."
    )

"""lorenz (F4): a neural ODE of the Lorenz system: how long does an iteration take, and with what?"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from statistics import median

from hotlap.experiment import statistics
from hotlap.lab import gpus
from hotlap.lab.children import ask
from hotlap.lab.result import Cell, Quantity, Result, Table, Unit, as_fast, count, typical
from hotlap.lab.settings import Settings
from hotlap.predict import Workload, forecast
from hotlap.record import decode
from hotlap.record.order import rounds
from hotlap.units import duration

TITLE = "A neural ODE of the Lorenz system: a thousand iterations of a network that hardly computes anything"
# The question's; hotlap.small makes them all. The others make the first ones, each process from the same start.
NUM_ITERATIONS = 1000
ITERATIONS, QUICK_ITERATIONS = 100, 8

TORCHDIFFEQ, DIFFRAX = "torchdiffeq", "diffrax"
ODEINT, FIT = "hotlap.small.odeint in a torch loop", "hotlap.small, NeuralODE.fit"
# Packages that one of them needs.
_NEEDS = {TORCHDIFFEQ: ("torchdiffeq",), DIFFRAX: ("diffrax", "optax")}
_METHODS = {TORCHDIFFEQ: "dopri5", DIFFRAX: "Tsit5", ODEINT: "tsit5", FIT: "tsit5"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One contender, for one process."""

    way: str
    iterations: int
    """The first ones of the training, timed."""
    whole: int = 0
    """A training of so many besides; 0: none."""
    device: str = "cpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Its training."""

    iteration_s: tuple[float, ...]
    """Mean iteration of each repeat from the start; compiling is not in it."""
    losses: tuple[float, ...]
    """Before each update; of the whole training where there was one."""
    first_s: float
    """The first call: tracing and compiling."""
    whole_s: float | None = None
    workload: str | None = None
    """Of one iteration, as JSON."""
    gpu: str | None = None
    """Name of a GPU that torch can use here."""
    native: bool = True


Answers = Mapping[str, Sequence[Answer]]
"""Way -> one for each process."""


def run(settings: Settings, doing: Callable[[str], None]) -> Result:
    """Train with each, processes in turns, on one thread: the network has no work for a second one."""
    iterations = QUICK_ITERATIONS if settings.quick else ITERATIONS
    missing = [way for way, needs in _NEEDS.items() if not all(map(find_spec, needs))]
    ways = [way for way in _METHODS if way not in missing]
    found: dict[str, list[Answer]] = {way: [] for way in ways}
    for each in islice(rounds(len(ways), seed=0), 1 if settings.quick else statistics.FEWEST_SHOWN):
        for way in (ways[k] for k in each):
            doing(f"training with {way}")
            whole = NUM_ITERATIONS if way == FIT else 0
            found[way].append(ask("ode", Question(way=way, iterations=iterations, whole=whole), Answer, threads=1))
    here, there = found[FIT][0].gpu, None
    if here is not None:
        doing(f"training on the {here}")
        there = ask("ode", Question(way=_traced(found), iterations=iterations, device="cuda"), Answer, threads=1)
    return tell(found, settings, missing=missing, there=there)


def _traced(found: Answers) -> str:
    return TORCHDIFFEQ if TORCHDIFFEQ in found else ODEINT


def tell(found: Answers, settings: Settings, *, missing: Sequence[str], there: Answer | None) -> Result:
    """The numbers, and what they mean."""
    gpu = gpus.chosen(settings, here=None if there is None else there.gpu)
    on_gpu = _on_gpu(found[_traced(found)][0], there, gpu)
    notes = [
        *gpu.notes,
        "dy/dt = net(y), net = 3-100-3 with tanh; t in (0, 1), 101 points, u0 = (1, 0, 0), sigma 10, rho 28, beta "
        "8/3; sum of squares, Adam(0.01); tolerances 1e-3 and 1e-6, float32, one thread; all start from the same "
        "weights.",
        *(f"{way} is not installed: pip install {' '.join(_NEEDS[way])} brings it into the table." for way in missing),
    ]
    if not all(one.native for answers in found.values() for one in answers):
        notes.append("hotlap was installed without its native core, so hotlap.small ran over torch's operators.")
    return Result(
        name="lorenz",
        title=TITLE,
        story=tuple(_story(found, on_gpu, gpu)),
        tables=(_table(found, on_gpu, gpu),),
        notes=tuple(notes),
        quick=settings.quick,
        gpus=() if gpu.predicted else (gpu.name,),
    )


def iteration(answers: Sequence[Answer]) -> Quantity:
    """Of all repeats in all processes."""
    return typical([one for answer in answers for one in answer.iteration_s])


def _on_gpu(one: Answer, there: Answer | None, gpu: gpus.Gpu) -> Quantity | None:
    if there is not None:
        return iteration([there])
    if one.workload is None:
        return None
    work = decode(one.workload.encode(), Workload).validated()
    return Quantity.of(forecast(work, target=gpu.name).step_s, predicted=True)


def _table(found: Answers, on_gpu: Quantity | None, gpu: gpus.Gpu) -> Table:
    traced = _traced(found)
    middles = {way: [median(one.iteration_s) for one in answers] for way, answers in found.items()}
    rows: list[tuple[Cell, ...]] = [
        (
            way,
            _METHODS[way],
            iteration(answers),
            as_fast(middles[traced], middles[way]) if way != traced else None,
            count(len(answers[0].losses)),
            Quantity(value=answers[0].losses[-1], unit=Unit.NUMBER),
        )
        for way, answers in found.items()
    ]
    if on_gpu is not None:
        rows.append((f"{traced} on {gpus.an(gpu.name)}", _METHODS[traced], on_gpu, None, None, None))
    return Table(
        title="One training iteration: solve, gradient, update",
        columns=("with", "method", "an iteration", f"as fast as {traced}", "made here", "last loss"),
        rows=tuple(rows),
        note="The question: orders of magnitude faster on a CPU with a lean path for small networks than on a Tesla "
        "K40c. A ratio is shown from three processes on, with its 95% interval.",
    )


def _story(found: Answers, on_gpu: Quantity | None, gpu: gpus.Gpu) -> list[str]:
    told = [f"{iteration(found[way])} with {way}" for way in (TORCHDIFFEQ, DIFFRAX) if way in found]
    first = f"An iteration takes {iteration(found[FIT])} with hotlap.small's fit on one core of this machine"
    first += f", {' and '.join(told)}." if told else "."
    whole = [one.whole_s for one in found[FIT] if one.whole_s is not None]
    if whole:
        first += f" The whole training, {len(found[FIT][0].losses):,} iterations: {duration(median(whole))}."
    return [first, _why(found, on_gpu, gpu)]


def _why(found: Answers, on_gpu: Quantity | None, gpu: gpus.Gpu) -> str:
    way = _traced(found)
    one = found[way][0]
    text = ""
    if one.workload is not None:
        work = decode(one.workload.encode(), Workload).validated()
        each_s = iteration(found[way]).value / work.num_kernels
        text = (
            f"In {way} an iteration is {work.num_kernels:,.0f} operators, {duration(each_s)} each with the Python "
            f"around them; all their arithmetic ({work.flop / 1e6:.2g} million operations) would take a core some "
            f"{duration(work.flop / 1e10)}. "
        )
    text += "So what counts is not how fast a device computes but how little is done around each call. "
    if on_gpu is not None:
        text += (
            f"That is why a GPU does not help: the same loop {gpu.takes} {on_gpu} an iteration on "
            f"{gpus.an(gpu.name)}, for its host has the same calls to make and each costs a launch. "
        )
    return text + "hotlap.small does solve, gradient and update of all iterations in one native call."

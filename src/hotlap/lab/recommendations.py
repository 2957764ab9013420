"""What an article on training speed recommends, and how hotlap judges each of it on a script."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from hotlap import levers
from hotlap.lab import gpus
from hotlap.lab.result import Quantity, Unit
from hotlap.lab.words import an, quantity
from hotlap.predict import Workload, forecast, outlook
from hotlap.record import Ceiling, Checkup, Finding, Interval, Run, SightingKind, Study, Trial, Verdict
from hotlap.units import duration, factor


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """All that was found out about the script."""

    study: Study
    checkup: Checkup
    work: Workload | None
    """One step; None where it could not be traced."""
    targets: tuple[str, ...]

    @property
    def run(self) -> Run:
        """The script as written, timed."""
        return self.study.baseline[0]

    @property
    def on_cpu(self) -> bool:
        """It trains on the CPU."""
        return self.run.device == "cpu"

    def trials(self, names: Sequence[str]) -> tuple[Trial, ...]:
        """Of these levers."""
        return tuple(
            trial
            for trial in self.study.trials
            if trial.kind == "lever" and trial.levers and trial.levers[0]["name"] in names
        )

    def finding(self, *codes: str) -> Finding | None:
        """The costliest of these."""
        return next((one for one in self.study.findings if one.code in codes), None)

    def ceiling(self, name: str) -> Ceiling | None:
        """What could be gained there at best."""
        return next((one for one in self.study.ceilings if one.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One recommendation on this script."""

    advice: str
    effect: Quantity | None
    verdict: str
    why: str


Judge = Callable[[str, Known], Item]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """As the article has it, and what hotlap does about it."""

    advice: str
    judge: Judge
    levers: tuple[str, ...] = ()


def _by_levers(names: Sequence[str], *, on_gpu_only: str = "") -> Judge:
    """By what trying them came to; `on_gpu_only`: why it means nothing on a CPU."""

    def judge(advice: str, known: Known) -> Item:
        if on_gpu_only and known.on_cpu:
            return Item(advice=advice, effect=None, verdict="does not apply", why=on_gpu_only)
        trials = known.trials(names)
        if not trials:
            why = "The time was over before it could be tried; --budget gives more."
            return Item(advice=advice, effect=None, verdict="not tried", why=why)
        best = max(trials, key=lambda one: (one.accepted, one.seen or 0.0))
        return item_of(advice, best)

    return judge


def _by_finding(code: str, *, on_gpu_only: str = "") -> Judge:
    """By what a rule says of it; a bound is told as one."""

    def judge(advice: str, known: Known) -> Item:
        if on_gpu_only and known.on_cpu:
            return Item(advice=advice, effect=None, verdict="does not apply", why=on_gpu_only)
        found = known.finding(code)
        if found is None:
            why = f"Nothing of it was found in the script (finding {code})."
            return Item(advice=advice, effect=None, verdict="nothing to do", why=why)
        effect = Quantity(value=1 / max(1e-9, 1 - found.share), unit=Unit.RATIO)
        return Item(advice=advice, effect=effect, verdict="do it (an upper bound)", why=found.evidence)

    return judge


def item_of(advice: str, trial: Trial) -> Item:
    """A trial as a row."""
    name = levers.from_spec(trial.levers[0]).title()
    if trial.seen is None:
        why = trial.why.removeprefix("Not tried. ")
        return Item(advice=advice, effect=None, verdict="does not apply", why=f"{name}: {why}")
    effect = Quantity.of(trial.speedup, Unit.RATIO) if trial.speedup is not None else None
    if trial.accepted:
        return Item(advice=advice, effect=effect, verdict="do it", why=f"{name}. {trial.why}")
    if trial.verdict is Verdict.HARMED:
        return Item(advice=advice, effect=effect, verdict="do not: training is harmed", why=f"{name}. {trial.why}")
    return Item(advice=advice, effect=effect, verdict=_no_gain(trial.speedup), why=f"{name}. {trial.why}")


def _no_gain(speedup: Interval | None) -> str:
    if speedup is None:
        return "no gain shown"
    if speedup.high < 1:
        return "do not: it is slower"
    return "no gain shown" if speedup.low <= 1 else "not proved"


def _better_gpu(advice: str, known: Known) -> Item:
    if known.work is None:
        return Item(advice=advice, effect=None, verdict="unknown", why="No step of the script could be traced.")
    name, devices = gpus.measured_on(known.run.device)
    found = forecast(
        known.work,
        target=known.targets[0],
        measured_on=name,
        measured_step_s=known.run.median_step_s() if name is not None else None,
        devices=devices,
    )
    there = Quantity.of(found.step_s, Unit.SECOND, predicted=True)
    effect = there.into(known.run.median_step_s())
    worth = "worth a thought" if (effect.low or 0.0) > 1 else "not sure to help"
    why = f"On {an(found.device)} a step would take {quantity(there)}, bound by {found.bound_by}."
    return Item(advice=advice, effect=effect, verdict=worth, why=why)


def _measured(advice: str, known: Known) -> Item:
    run = known.run
    first = next(iter(known.study.findings), None)
    why = f"A step takes {duration(run.median_step_s())}. {first.evidence if first else 'No rule found a bottleneck.'}"
    return Item(advice=advice, effect=None, verdict="done", why=why)


def _training_intact(advice: str, known: Known) -> Item:
    judged = [trial for trial in known.study.trials if trial.kind == "lever" and trial.verdict is not Verdict.UNDECIDED]
    harmed = [trial for trial in judged if trial.verdict is Verdict.HARMED]
    why = (
        "Changes that gained and were compared with the script as written, by losses, samples and updates: "
        f"{len(judged)}. Of these harmed training: {len(harmed)}."
        if judged
        else "No change gained enough to be worth comparing training under it."
    )
    return Item(advice=advice, effect=None, verdict="done", why=why)


_BUILD = frozenset(
    {
        "cpu-torch-beside-gpu",
        "driver-too-old",
        "gpu-not-reached",
        "gpu-not-in-build",
    }
)


def _environment(advice: str, known: Known) -> Item:
    wrong = [one for one in known.checkup.complaints if one.code in _BUILD]
    if wrong:
        first = wrong[0]
        return Item(advice=advice, effect=None, verdict="do it", why=f"{first.what} {first.cost} {first.fix}")
    if known.on_cpu:
        return Item(advice=advice, effect=None, verdict="does not apply", why="The training runs on the CPU.")
    return Item(
        advice=advice, effect=None, verdict="nothing to do", why="Driver, CUDA and the build of torch fit the GPU."
    )


def _input(names: Sequence[str]) -> Judge:
    """By the levers, and by what free batches would bring at best."""
    by_levers = _by_levers(names)

    def judge(advice: str, known: Known) -> Item:
        found = by_levers(advice, known)
        ceiling = known.ceiling("input")
        if ceiling is None or found.effect is not None:
            return found
        most = f"Batches for free would bring {factor(ceiling.speedup.mid)} at most."
        return replace(found, why=f"{found.why} {most}")

    return judge


# What takes needless trips out of a script.
_TRIPS = ("deferred-scalars", "create-on-device", "random-on-device")


def _syncs(advice: str, known: Known) -> Item:
    if known.on_cpu:
        why = "On a CPU nobody waits for a device: these calls cost what they copy, no more."
        return Item(advice=advice, effect=None, verdict="does not apply", why=why)
    tried = _by_levers(_TRIPS)(advice, known)
    if tried.effect is not None:
        return tried
    found = known.finding("sync-bound", "transfer-bound")
    if found is not None:
        effect = Quantity(value=1 / max(1e-9, 1 - found.share), unit=Unit.RATIO)
        return Item(advice=advice, effect=effect, verdict="do it (an upper bound)", why=found.evidence)
    kinds = (SightingKind.SYNC, SightingKind.THERE_AND_BACK, SightingKind.CREATED_AND_MOVED)
    seen = [one for one in known.run.sightings if one.kind in kinds]
    why = (
        f"{len(seen)} such calls were seen; together they cost no tenth of a step."
        if seen
        else "No such call was seen in the steps."
    )
    return Item(advice=advice, effect=None, verdict="nothing to do", why=why)


def _batch(advice: str, known: Known) -> Item:
    why = "It is another training (and wants another learning rate), so hotlap does not change it by itself."
    if known.work is None:
        return Item(advice=advice, effect=None, verdict="your decision", why=why)
    found = outlook.levers(known.work, target=known.targets[0])
    double = next((one for one in found if one.lever == "batch-x2"), None)
    if double is None:
        return Item(advice=advice, effect=None, verdict="your decision", why=why)
    effect = Quantity.of(double.speedup, Unit.RATIO, predicted=True)
    why = f"{why} On {an(known.targets[0])} twice the batch would train {quantity(effect)} the samples a second."
    return Item(advice=advice, effect=effect if not known.on_cpu else None, verdict="your decision", why=why)


def _shapes(advice: str, known: Known) -> Item:
    shapes = known.run.shapes
    if shapes is None:
        return Item(advice=advice, effect=None, verdict="unknown", why="The shapes of the batches could not be seen.")
    found = known.finding("shape-churn")
    if found is not None:
        return Item(advice=advice, effect=None, verdict="do it", why=found.evidence)
    number = f"{shapes.num_shapes} shape{'s' if shapes.num_shapes > 1 else ''} in {shapes.num_steps} steps"
    return Item(advice=advice, effect=None, verdict="nothing to do", why=f"The model was given {number}.")


_WORKERS = ("workers", "no-epoch-gap")
_PINNING = ("pin-and-overlap",)
_READERS = ("cached-dataset", "batched-fetch", "cached-prefix")
_PRECISION = ("bf16-autocast", "fp16-autocast", "tf32")
_FUSED = ("fused-optimizer",)
_JIT = ("compile", "native-step", "native-ode")
_ON_GPU = "It is about a GPU, and this training runs on the CPU."

RECOMMENDATIONS: tuple[Recommendation, ...] = (
    Recommendation(advice="A better GPU beats tricks", judge=_better_gpu),
    Recommendation(advice="Measure before you improve", judge=_measured),
    Recommendation(advice="Check that training does not fall apart", judge=_training_intact),
    Recommendation(advice="NVIDIA's container: fitting CUDA, busy tensor cores", judge=_environment),
    Recommendation(advice="DataLoader with workers, their number measured", judge=_input(_WORKERS), levers=_WORKERS),
    Recommendation(
        advice="pin_memory with non_blocking",
        judge=_by_levers(
            _PINNING, on_gpu_only="Pinned memory is for copies to a GPU, and this training runs on the CPU."
        ),
        levers=_PINNING,
    ),
    Recommendation(advice="Faster formats and readers", judge=_input(_READERS), levers=_READERS),
    Recommendation(advice="Throw out needless .cpu(), .to(), .numpy()", judge=_syncs, levers=_TRIPS),
    Recommendation(advice="A larger batch", judge=_batch),
    Recommendation(advice="Fixed batch shapes", judge=_shapes),
    Recommendation(
        advice="Where shapes vary, preallocate",
        judge=_by_finding("preallocation", on_gpu_only=_ON_GPU),
    ),
    Recommendation(advice="zero_grad(set_to_none=True)", judge=_by_finding("zero-grad-none")),
    Recommendation(
        advice="cudnn.benchmark for fixed shapes",
        judge=_by_levers(("cudnn-benchmark",), on_gpu_only=_ON_GPU),
        levers=("cudnn-benchmark",),
    ),
    Recommendation(advice="Mixed precision", judge=_by_levers(_PRECISION), levers=_PRECISION),
    Recommendation(advice="Fused Adam", judge=_by_levers(_FUSED), levers=_FUSED),
    Recommendation(advice="Fusing with a compiler", judge=_by_levers(_JIT), levers=_JIT),
)


def wanted_levers() -> tuple[str, ...]:
    """Names of all levers behind the recommendations."""
    return tuple(name for one in RECOMMENDATIONS for name in one.levers)

"""Everything known about one script: findings, ceilings, trials, the result."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from hotlap.record.machine import Machine, Sweep
from hotlap.record.moments import Interval
from hotlap.record.plan import SCHEMA, LeverSpec
from hotlap.record.run import Run

# Of the largest float, rounded down.
_LARGEST_LOG = 709.0


class Verdict(StrEnum):
    """What the gate says about training under a change."""

    UNHARMED = "UNHARMED"
    HARMED = "HARMED"
    UNDECIDED = "UNDECIDED"


class State(StrEnum):
    """How far a study has come."""

    RUNNING = "running"
    INTERRUPTED = "interrupted"
    COMPLETE = "complete"


class Purpose(StrEnum):
    """What the study was made for."""

    TUNE = "tune"
    """To make the script faster: levers are tried."""
    MEASURE = "measure"
    """To know where the time of a step goes: nothing is tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """The step time if one thing cost nothing: what is the most that all work on it could bring?"""

    name: str
    """"input", "optimizer", ..."""
    idealised: str
    """One clause: "batches replayed from memory"."""
    step_s: float
    speedup: Interval
    """Over the baseline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One diagnosis."""

    code: str
    cost_s: float
    """Seconds of each step."""
    share: float
    """`cost_s` as a part of the step, in [0, 1]; of all time where it is spent `between_steps`."""
    evidence: str
    """One sentence with numbers."""
    try_levers: tuple[str, ...] = ()
    """Names of the levers worth a trial, most promising first."""
    urgent: bool = False
    """It ends the training before long, whatever a step costs until then."""
    before: str = ""
    """Source as it stands, where a person is to change it by hand; empty where no text is proposed."""
    after: str = ""
    """The same as it could be."""
    where: str = ""
    """Place of `before`: "train.py:12"; empty where there is none."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables under which the command would not have the fault."""
    risk: str = ""
    """What its remedy may change, as a clause with its period: "none for the numbers."."""
    advice: bool = False
    """`cost_s` is what it could bring at most, not what was measured."""
    between_steps: bool = False
    """`cost_s` is spent between steps, for each of them, and is in no step: it may be longer than one."""
    at_any_cost: bool = False
    """It is told though it costs next to nothing here: what it costs is not known, or comes later."""
    at_most_share: float = 0.0
    """Part of a step that may go with it, where that is more than `share`: the operators that its line calls."""

    @property
    def is_negligible(self) -> bool:
        """It costs less than 1% of a step, and ends nothing."""
        return self.share < 0.01 and not self.urgent


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """What an A/A test came out as, here and now."""

    scope: str
    """Levers of this scope are compared like that: "step", or "process" (which serves loader levers too). "again": one
    run and the next, at different times."""
    speedup: Interval | None
    """Truth is 1. None where fewer than three ratios were seen: what they say (`log_ratios`) is no more than seen."""
    smallest_gain: float | None
    """The smallest speed-up that could be told from none under this noise, e.g. 1.03; None as well."""
    log_ratios: tuple[float, ...] = ()
    """One per process (or pair of processes): logarithm of the ratio in the A/A test."""


class Failure(StrEnum):
    """Why a trial came to no times."""

    CRASHED = "crashed"
    """The script raised, or left with a code other than 0."""
    HUNG = "hung"
    """No step for longer than the time-out."""
    HOST_MEMORY = "out-of-host-memory"
    DEVICE_MEMORY = "out-of-device-memory"
    LOST_WORKERS = "lost-workers"
    """A loader's worker processes were gone."""
    TOO_FEW_STEPS = "too-few-steps"
    NOT_INSTALLED = "not-installed"
    """The levers could not be put to work in the process."""


# A lever is taken where it is certain that it is faster, and what was seen of it comes to this: less is not worth a
# line in the user's source (docs/measuring.md).
LEAST_GAIN = 1.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One thing tried."""

    levers: tuple[LeverSpec, ...]
    """What was added in this trial."""
    on_top_of: tuple[LeverSpec, ...] = ()
    """What had been accepted before; `speedup` is over this."""
    kind: str = "lever"
    """"lever" (one, or several as one stack), "screening" (of what gained, and is judged later or in a stack),
    "leave-one-out" (is what `levers` name still worth its place?), or "patch" (the patched copy)."""
    scope: str = "step"
    """How it was compared: as `Noise.scope`, or "fresh": by processes started as the user's are, where those of
    "process" are forks, or "short step" and "short process", with the fewest steps: what each varies by is kept
    apart. "none": not at all."""
    speedup: Interval | None = None
    """None where fewer than three processes were timed: what they saw (`log_ratios`) is no claim."""
    verdict: Verdict = Verdict.UNDECIDED
    accepted: bool = False
    why: str = ""
    """One sentence."""
    one_time_s: float | None = None
    """What it costs once, before it pays: filling a cache, compiling."""
    break_even_step: int | None = None
    """From this step on the one-time cost has paid itself back."""
    log_ratios: tuple[float, ...] = ()
    """One per process (or pair): logarithm of the speed-up seen there. The interval is made of these."""
    order_seeds: tuple[int, ...] = ()
    """As many: each drew the order in which that process's arms, or the processes of its trial group, took turns."""
    runs: tuple[Run, ...] = ()
    failure: Failure | None = None
    """Why there are no times, as one of a few states; `why` is the sentence."""

    @property
    def seen(self) -> float | None:
        """Geometric mean of the speed-ups of all processes; None when no timing came about."""
        if self.log_ratios:
            mean = math.fsum(ratio / len(self.log_ratios) for ratio in self.log_ratios)
            return math.exp(min(mean, _LARGEST_LOG))  # a file that somebody else wrote may hold any number
        return self.speedup.mid if self.speedup is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The step on hardware that is not there; the interval is an 80% one."""

    device: str
    count: int
    step_s: Interval
    bound_by: str
    efficiency: float | None = None
    fits: bool | None = None
    assumptions: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The device, with how many of it: "8 x H100 SXM5 80GB"."""
        return self.device if self.count == 1 else f"{self.count} x {self.device}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """What the patch does to one file."""

    path: str
    before_sha256: str
    after_sha256: str
    after: str
    """The whole new text, without a byte order mark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What the study comes to."""

    levers: tuple[LeverSpec, ...]
    """Accepted, in the order in which they were stacked."""
    speedup: Interval
    """Of a typical step over the baseline, in fresh processes."""
    verdict: Verdict
    why: str
    """One sentence: what was compared, how much of it, and what was not."""
    total_speedup: Interval | None = None
    """Of the time of the whole training (`Study.total_steps`; the long run where they are not known): its start, what
    is paid once, starts of epochs and validations included. None where nothing was compared in processes of their own.
    """
    whole_s: tuple[tuple[float, float], ...] = ()
    """Seconds of whole trainings by the clock, (baseline, patched) one after the other, weighed with what steps predict
    in `total_speedup`. Empty where that is extrapolated, because a whole training takes too long to be made again and
    again."""
    one_time_s: float | None = None
    """What all levers together cost once; None where that could not be told from chance."""
    break_even_step: int | None = None
    """From this step on that has paid itself back."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that the script is to be started with, beside the patch: they are read before Python runs, so that no
    line of source can set them."""
    needs_s: float | None = None
    """Budget that takes what was not tried, or could not be shown or judged, to its end on this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPoint:
    """Training at one batch size, in a fresh process, optimizer state included."""

    size: int
    samples_per_s: float
    """As many times the script's own as processes that took turns with it say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Another batch size with the learning rate that goes with it: another training, so no part of the patch."""

    before: int
    """The script's own batch size."""
    size: int
    """The knee of the curve: the smallest size that is about as fast as any; `before` where none is worth it."""
    rates: Mapping[str, float] = field(default_factory=dict)
    """Class of an optimizer -> what its learning rate is multiplied by."""
    curve: tuple[BatchPoint, ...] = ()
    """Sizes that ran, smallest first."""
    speedup: Interval | None = None
    """Of the time to the loss at which the baseline was at the end of the steps that were compared; over seeds."""
    accepted: bool = False
    """The loss is reached sooner, clearly."""
    why: str = ""
    """One sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """Everything known about one script; saved after each trial."""

    command: tuple[str, ...]
    """As the user gave it."""
    cwd: str
    created: str
    """ISO 8601, UTC."""
    key: str
    """Digest of command, sources, versions and options: a study with the same key can be resumed."""
    schema: int = SCHEMA
    hotlap: str = ""
    """Version that made it."""
    state: State = State.RUNNING
    elapsed_s: float = 0.0
    budget_s: float = 300.0
    machine: Machine | None = None
    baseline: tuple[Run, ...] = ()
    """The baseline: the first is timed, further ones carry evidence (same seed twice, then others)."""
    noise: tuple[Noise, ...] = ()
    findings: tuple[Finding, ...] = ()
    """Costliest first."""
    ceilings: tuple[Ceiling, ...] = ()
    trials: tuple[Trial, ...] = ()
    result: Result | None = None
    after: Run | None = None
    """The script under the accepted levers, timed: the "after" of the picture."""
    beside: Run | None = None
    """The baseline in the same trial group as `after`: what it is compared with. (Between trial groups the machine may
    change.)"""
    patch: str | None = None
    """Unified diff of the accepted levers; None when there is nothing to change."""
    changes: tuple[FileChange, ...] = ()
    predictions: tuple[Prediction, ...] = ()
    warnings: tuple[str, ...] = ()
    purpose: Purpose = Purpose.TUNE
    sweep: Sweep | None = None
    """The step at several numbers of threads; None where that was not tried."""
    total_steps: int | None = None
    """Steps that the user's training makes: as given, or as seen; None where that is not known. One-time costs must
    have paid themselves back by then."""
    recipe: Recipe | None = None
    """None unless it was asked for."""
    asked: tuple[str, ...] = ()
    """Options that the user gave, word by word, but for the budget and what is shown: to ask the same again."""
    stdin: str | None = None
    """Path of the file that standard input was; None for a terminal, a pipe, or nothing."""

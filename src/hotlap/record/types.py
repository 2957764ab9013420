"""The record: what one part of hotlap hands to the next. Frozen values; seconds, bytes, shares in [0, 1].

Shape letters: S recorded steps (index i is the same step in every (S,) field), G parameter groups, P parameters.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median

# Version of the JSON. 1: first.
SCHEMA = 1

Scalar = str | int | float | bool | None
LeverSpec = Mapping[str, Scalar]
"""A lever as data: `{"name": "threads", "count": 1}`: the name, and each setting beside it."""


class Phase(StrEnum):
    """What a moment of a step was spent on; each moment belongs to exactly one."""

    INPUT = "input"
    TRANSFER = "transfer"
    FORWARD = "forward"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"
    COMMUNICATION = "communication"
    SYNC = "sync"
    OTHER = "other"


class Status(StrEnum):
    """How one execution of the script came to its end."""

    COMPLETE = "complete"
    """All wanted steps were recorded, then hotlap ended the process."""
    ENDED = "ended"
    """The script came to its own end, without an error, before all wanted steps were made."""
    CRASHED = "crashed"
    """The script raised, or left with a code other than 0."""
    KILLED = "killed"
    """A signal that was not ours ended it (out of memory, most often)."""
    HUNG = "hung"
    """No step for longer than the time-out; ended by hotlap."""
    LAPSED = "lapsed"
    """Steps went on, but the time that this run was given was over; ended by hotlap."""
    SILENT = "silent"
    """The probe never reported: the command did not end in a Python with torch and hotlap."""


class NonFinite(StrEnum):
    """Floats that JSON has no spelling for."""

    NAN = "nan"
    POSITIVE = "inf"
    NEGATIVE = "-inf"


Number = float | NonFinite | None
"""A float of the script that may be anything; None where it was not seen."""


def as_number(value: float | None) -> Number:
    """A float -> what the record holds for it."""
    if value is None or math.isfinite(value):
        return value
    return NonFinite(str(float(value)))


def as_float(number: Number) -> float | None:
    """What the record holds -> the float, NaN and infinities restored."""
    return float(number.value) if isinstance(number, NonFinite) else number


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A 95% confidence interval, unless its holder says otherwise."""

    low: float
    mid: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The token of a heat: several processes alive, of which one runs at a time, a block of steps each."""

    steps: int
    """Steps in one turn."""
    ready: str
    """Path of a FIFO: the child writes one byte when it has finished a turn and waits."""
    go: str
    """Path of a FIFO: the child reads one byte before each turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One execution of the user's command, as it is to be done."""

    command: tuple[str, ...]
    """What is started, word by word."""
    cwd: str
    out: str
    """Folder that the probe writes into; outside of the user's tree."""
    schema: int = SCHEMA
    arms: tuple[tuple[LeverSpec, ...], ...] = ((),)
    """Sets of levers. One arm: installed from the start. Several: switched between steps, block by block."""
    always: tuple[LeverSpec, ...] = ()
    """Levers installed in every arm, from the start."""
    block: int = 11
    """Steps in a block. Odd, so that the bursts of a loader with a few workers do not keep step with the blocks."""
    steps: int = 200
    """Steps to record after the warm-up (for each arm, when there are several)."""
    warmup: int = 20
    """Steps that are made and thrown away first."""
    warmup_max_s: float = 60.0
    """A lever that has not settled (a cache not yet filled) prolongs the warm-up, up to this time."""
    whole_epoch: bool = False
    """Go on beyond `steps`, up to four times as many, until the first steps of the second epoch are recorded."""
    seed: int | None = 0
    """Seeds Python, NumPy and torch before the script starts; None leaves them alone."""
    reseed: int = 0
    """Added to every seed that the script itself sets, so that other seeds can be tried."""
    evidence: bool = False
    """Also record what the gate compares: digests, random states, parameter updates. Costs time, so such runs are not
    timed."""
    nudge: int = 0
    """Not 0: after each update every parameter moves by at most one unit in the last place, drawn with this seed.
    Shows what rounding alone does to the losses of this script."""
    free_input: bool = False
    """After the warm-up, batches are replayed instead of loaded: the ceiling of everything done to the input."""
    turn: Turn | None = None
    replaced: Mapping[str, str] = field(default_factory=dict)
    """Path of a source file -> text that is run instead of what is on disk (to try a patch without applying it)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSite:
    """A call in the user's source that made something hotlap knows: lines from 1, columns in UTF-8 bytes from 0."""

    calls: str
    """Full name of what is called: "torch.utils.data.DataLoader", "torch.optim.Adam", "forward"."""
    path: str
    sha256: str
    """Of the file's bytes when it was recorded."""
    line: int
    end_line: int
    col: int
    end_col: int
    detail: Mapping[str, Scalar] = field(default_factory=dict)
    """What a lever must know about this very call (which object it made; the type that a forward returned)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderFacts:
    """A DataLoader as the script configured it."""

    id: int
    """Number in order of construction, from 0; `CallSite.detail["loader"]` refers to it."""
    dataset: str
    """Type name of the data set."""
    num_items: int | None
    """Length of the data set; None for an iterable one."""
    num_workers: int
    batch_size: int | None
    default_collate: bool
    pin_memory: bool
    trained_on: bool
    """True if batches of it were drawn in steps with a backward pass."""
    deterministic: bool | None
    """Items twice computed came out equal and drew no random number; None where it was not checked."""
    why_not: str | None
    """If `deterministic` is False: what was seen."""
    item_s: float | None
    """Median time of one item; None where items are fetched elsewhere (workers)."""
    item_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerFacts:
    """An optimizer as the script configured it."""

    id: int
    name: str
    """Full type name, "torch.optim.adam.Adam"."""
    fused: bool | None
    """None: the script did not choose. False also when the optimizer has no such argument (see `has_fused`)."""
    foreach: bool | None
    has_fused: bool
    num_parameters: int
    """Number of parameter tensors."""
    num_elements: int
    num_groups: int
    device: str
    dtypes: tuple[str, ...]
    all_dense: bool
    """Every parameter is non-overlapping and dense in memory."""
    not_dense: str | None
    """If not: shape and strides of one that is not."""
    closure: bool
    """step() was called with a closure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """What one step changed in the parameters (recorded at some steps only)."""

    step: int
    norms: tuple[Number, ...]
    """(P,) L2 norm of the change."""
    changed: tuple[float, ...]
    """(P,) part of the elements that changed, in [0, 1]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One execution of the user's script, as the probe saw it. Later stages read this and nothing else."""

    status: Status
    schema: int = SCHEMA
    error: str | None = None
    """One sentence, when `status` is not COMPLETE."""
    exit_code: int | None = None
    """The script's own; None where hotlap ended it."""
    output: str = ""
    """End of what the script printed to stderr (all of a short one), as it is."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """"python", "torch", "hotlap" and the like."""
    device: str = "cpu"
    """Where the parameters live: "cpu", or the name that the driver gives."""
    num_threads: int | None = None
    """torch's intra-op threads at the first recorded step."""
    seed: int | None = None
    reseed: int = 0
    """As in the plan: added to the script's own seeds."""
    nudge: int = 0
    """As in the plan: not 0 if the parameters were moved by rounding errors on purpose."""
    arms: tuple[tuple[LeverSpec, ...], ...] = ((),)
    always: tuple[LeverSpec, ...] = ()
    setup_s: float | None = None
    """From the start of the process to its first step."""
    first_steps_s: tuple[float, ...] = ()
    """Durations of the warm-up steps, the first included (at most 2,000 kept)."""
    step_s: tuple[float, ...] = ()
    """(S,) wall time from the end of one step to the end of the next."""
    phase_s: Mapping[Phase, tuple[float, ...] | None] = field(default_factory=dict)
    """Phase -> (S,), summing to `step_s`; None where the phase could not be measured."""
    arm: tuple[int, ...] = ()
    """(S,) index into `arms`."""
    block: tuple[int, ...] = ()
    """(S,) number of the block or turn, from 0."""
    step_index: tuple[int, ...] = ()
    """(S,) number of the step in the training, from 0: warm-up counts."""
    epoch_starts: tuple[int, ...] = ()
    """Indices into (S,) of the steps in which a loader was started anew (an epoch's begin, or a validation)."""
    loss: tuple[Number, ...] = ()
    """(S,) sum of the scalars that backward was called on within the step."""
    num_samples: tuple[int | None, ...] = ()
    """(S,) samples drawn from loaders, or None without one."""
    num_updates: tuple[int, ...] = ()
    """(S,) optimizer steps that were made."""
    learning_rates: tuple[tuple[float, ...], ...] | None = None
    """(S, G) of all optimizers; None when not recorded."""
    batch_digest: tuple[str | None, ...] | None = None
    """(S,) digest of the bytes of all batches drawn, or of what the model was called with when there is no loader."""
    rng_digest: tuple[str, ...] | None = None
    """(S,) digest of the states of Python's, NumPy's and torch's generators at the end of the step."""
    settings_digest: tuple[str, ...] | None = None
    """(S,) digest of the optimizers' settings except learning rates and the choice of kernel."""
    updates: tuple[Update, ...] | None = None
    skipped_updates: int = 0
    """Steps that a GradScaler left out."""
    loaders: tuple[LoaderFacts, ...] = ()
    optimizers: tuple[OptimizerFacts, ...] = ()
    autocast: bool = False
    """The script itself runs its forward passes under autocast."""
    compiled: bool = False
    """The script itself uses torch.compile."""
    call_sites: tuple[CallSite, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    """Path -> sha256 of the user's source files that were loaded; the script is the first."""
    rss_peak_bytes: int | None = None
    device_peak_bytes: int | None = None
    probe_s: float | None = None
    """What the probe itself cost per step, by its own count of events and their measured price."""
    not_installed: tuple[str, ...] = ()
    """Levers that could not be installed, each with the reason: this run says nothing about them."""
    notes: tuple[str, ...] = ()
    """What the reader should know: a cache that was dropped, say."""

    def share(self, phase: Phase) -> float | None:
        """Part of the recorded time spent in `phase`, in [0, 1]; None where it was not measured."""
        parts = self.phase_s.get(phase)
        total = sum(self.step_s)
        return sum(parts) / total if parts is not None and total > 0 else None

    def median_step_s(self) -> float:
        """Median step time; NaN without a step."""
        return median(self.step_s) if self.step_s else math.nan

    def mean_phase_s(self, phase: Phase) -> float | None:
        """Mean time a step spends in `phase`; None where it was not measured."""
        parts = self.phase_s.get(phase)
        return sum(parts) / len(parts) if parts else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """The step time if one thing cost nothing: what is the most that all work on it could bring?"""

    name: str
    """"input", "optimizer", ..."""
    idealised: str
    """One clause: "batches replayed from memory"."""
    step_s: float
    speedup: Interval
    """Over the script as written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One diagnosis."""

    code: str
    cost_s: float
    """Seconds of each step."""
    share: float
    """`cost_s` as a part of the step, in [0, 1]."""
    evidence: str
    """One sentence with numbers."""
    try_levers: tuple[str, ...] = ()
    """Names of the levers worth a trial, most promising first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """What a comparison of two equal things (A/A) came out as, here and now."""

    scope: str
    """Levers of this scope are compared like that: "step", or "process" (which serves loader levers too)."""
    speedup: Interval
    """Truth is 1."""
    smallest_gain: float
    """The smallest speed-up that could be told from none under this noise, e.g. 1.03."""
    num_processes: int
    log_ratios: tuple[float, ...] = ()
    """One per process (or pair of processes): logarithm of the ratio of two equal things."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One thing tried."""

    levers: tuple[LeverSpec, ...]
    """What was added in this trial."""
    on_top_of: tuple[LeverSpec, ...] = ()
    """What had been accepted before; `speedup` is over this."""
    kind: str = "lever"
    """"lever", "leave-one-out" (is what `levers` name still worth its place?), or "patch" (the patched copy)."""
    scope: str = "step"
    speedup: Interval | None = None
    """None when no timing came about; `why` says why."""
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
    runs: tuple[Run, ...] = ()


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Where the study ran, as far as levers and rules must know. None: could not be read."""

    system: str
    """"Linux", "Darwin", "Windows"."""
    processor: str
    num_cores: int
    """Logical processors of the machine."""
    usable_cores: float
    """What this process may use: affinity and cgroup quota considered."""
    memory_bytes: int
    available_bytes: int
    """Free for this process now, cgroup limit considered."""
    shm_bytes: int | None
    """Free in /dev/shm."""
    huge_pages: str | None
    """Transparent huge pages: "always", "madvise" or "never"."""
    libc: str
    """"glibc 2.36", ..."""
    cpu_flags: tuple[str, ...] = ()
    """Those that matter here: "avx2", "avx512f", "avx512_bf16", "amx_bf16", ..."""
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """What the patch does to one file."""

    path: str
    before_sha256: str
    after_sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What the study comes to."""

    levers: tuple[LeverSpec, ...]
    """Accepted, in the order in which they were stacked."""
    speedup: Interval
    """Over the script as written, in fresh processes."""
    verdict: Verdict
    why: str
    """One sentence: what was compared, how much of it, and what was not."""


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
    """The script as written: the first is timed, further ones carry evidence (same seed twice, then others)."""
    noise: tuple[Noise, ...] = ()
    findings: tuple[Finding, ...] = ()
    """Costliest first."""
    ceilings: tuple[Ceiling, ...] = ()
    trials: tuple[Trial, ...] = ()
    result: Result | None = None
    after: Run | None = None
    """The script under the accepted levers, timed: the "after" of the picture."""
    patch: str | None = None
    """Unified diff of the accepted levers; None when there is nothing to change."""
    changes: tuple[FileChange, ...] = ()
    predictions: tuple[Prediction, ...] = ()
    warnings: tuple[str, ...] = ()

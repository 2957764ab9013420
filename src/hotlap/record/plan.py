"""What is to be done: the plan of one execution, handed from the parent to the child."""

import io
import tokenize
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

# Version of the JSON; docs/record.md has its history.
SCHEMA = 3

# How many times `Plan.steps` a run may go on in order to see an epoch's end (`Plan.whole_epoch`), and the steps beyond
# it that are recorded, so that the new epoch's first batches are seen as well.
EPOCH_STRETCH, BEYOND_EPOCH = 4, 10

# First steps of a run with evidence in which nothing is dropped at random: the first one shows whether a version makes
# the same gradients, the next one what rounding does to them.
KEPT_STEPS = 2

Scalar = str | int | float | bool | None
LeverSpec = Mapping[str, Scalar]
"""A lever as data: `{"name": "threads", "count": 1}`: the name, and each setting beside it."""


def lever_title(spec: LeverSpec) -> str:
    """A lever for people: "threads count=1". What is switched off in it is not told."""
    settings = (f"{key}={value}" for key, value in spec.items() if key != "name" and value is not False)
    return " ".join([str(spec.get("name", "unnamed lever")), *settings])


def lever_titles(specs: Iterable[LeverSpec]) -> str:
    """Several levers as one clause."""
    return " + ".join(map(lever_title, specs)) or "no lever"


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The token of a trial group: several processes alive, of which one runs at a time, a block of steps each."""

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
    order_seed: int = 0
    """Draws the order in which arms, or the processes of a trial group, take turns (`hotlap.record.order`)."""
    block: int = 11
    """Steps in a block. Odd, so that the bursts of a loader with a few workers do not keep step with the blocks."""
    steps: int = 200
    """Steps to record after the warm-up (for each arm, when there are several)."""
    enough_s: float | None = None
    """So long after the first step, fewer recorded steps will do where they are long (`probe.schedule`), and so long
    after the first profiler that has steps of its own no other begins. Not where arms or processes take turns."""
    warmup: int = 20
    """Steps that are made and thrown away first."""
    warmup_max_s: float = 60.0
    """A lever that has not settled (a cache not yet filled) prolongs the warm-up, up to this time."""
    whole_epoch: bool = False
    """Go on beyond `steps`, up to `EPOCH_STRETCH` times as many, until the first `BEYOND_EPOCH` steps of the second
    epoch are recorded; where no loader was started, and so there are no epochs, up to 4,096 steps (with evidence as for
    an epoch) until two validations are, if one was seen."""
    whole_epoch_s: float | None = None
    """Go on like that for at most so long after the first step; None: as long as the steps allow."""
    seed: int | None = 0
    """Seeds Python, NumPy and torch before the script starts; None leaves them alone."""
    reseed: int = 0
    """Added to every seed that the script itself sets, so that other seeds can be tried."""
    evidence: bool = False
    """Also record what the gate compares: digests, random states, parameter updates. Costs time, so such runs are not
    timed."""
    perturbation: int = 0
    """Not 0: after each update every parameter moves by at most one unit in the last place, drawn with this seed.
    Shows what rounding alone does to the losses of this script. Below 0: a unit of bfloat16, which shows what that does
    to the next gradient."""
    free_input: bool = False
    """After the warm-up, batches are replayed instead of loaded: the ceiling of everything done to the input."""
    turn: Turn | None = None
    profilers: tuple[str, ...] = ()
    """Names of what else to look at (`hotlap.probe.profilers`); those that need steps of their own get them
    after the recorded ones."""
    afresh: bool = False
    """Start a process of its own, as the user does, not a fork of one that has made the script's imports."""
    whole: bool = False
    """Never end the process: record on and on, thinned out, until the script ends by itself."""
    replaced: Mapping[str, str] = field(default_factory=dict)
    """Path of a source file -> text that is run instead of what is on disk (to try a patch without applying it)."""
    only_levers: bool = False
    """The training is run for real under `always`, to its own end: nothing is recorded, and of it nothing is timed but
    the whole."""
    limit_s: float | None = None
    """What the whole run is given, from its start; None: unknown. Where steps are so long that profilers would get none
    of their own before it is over, fewer are recorded."""


def encoded(text: str) -> bytes:
    """A Python file of this text, in the encoding that it declares."""
    encoding, _ = tokenize.detect_encoding(io.BytesIO(text.encode()).readline)
    return text.encode(encoding)

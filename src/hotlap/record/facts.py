"""What the script is made of, as the probe found it: call sites, loaders, optimizers, and what was seen where."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hotlap.record.moments import Number, Phase, SightingKind
from hotlap.record.plan import Scalar


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
    detail: Mapping[str, Scalar] = field(default_factory=dict, hash=False)
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
    trained_on: bool = False
    """True if steps with a backward pass used batches of it, and did more than look at them (as a validation does)."""
    deterministic: bool | None = None
    """Items twice computed came out equal and drew no random number; None where it was not checked."""
    why_not: str | None = None
    """If `deterministic` is False: what was seen."""
    item_s: float | None = None
    """Median time of one item; None where items are fetched elsewhere (workers)."""
    item_bytes: int | None = None
    iterable: bool = False
    persistent_workers: bool = False
    start_method: str | None = None
    """How its workers are started, "fork", "spawn" or "forkserver"; None without workers."""
    num_batches: int | None = None
    """Of an epoch, in this process; None where a sampler of the script's would have to be asked."""
    dataset_anew: bool = False
    """The script makes another data set for each epoch, and drops the one before."""
    loader_anew: bool = False
    """The same of the loader itself, whose workers end with it."""
    num_trained: int = 0
    """Batches of it that were trained on, in the first steps of the training."""
    subset_of: str | None = None
    """Type name of what is below one `Subset` or several (`random_split`); None where the data set is none."""


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
    device: str
    dtypes: tuple[str, ...]
    all_dense: bool
    """Every parameter is non-overlapping and dense in memory."""
    not_dense: str | None
    """If not: shape and strides of one that is not."""
    closure: bool
    """step() was called with a closure."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Name -> its value at the end, or each and for how many parameters; without learning rates and the choice of
    kernel. And how many parameters require gradients."""
    denormals: float | None = None
    """Part of the elements of parameters and optimizer state that were denormal at the end, in [0, 1]; None on a
    device, and where the processor is as fast with them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """What one step changed in the parameters (recorded at some steps only).

    Of a parameter with more than 65,000 elements, so many at fixed places stand for all.
    """

    step: int
    norms: tuple[Number, ...]
    """(P,) L2 norm of the change."""
    changed: tuple[float, ...]
    """(P,) part of the elements that changed, in [0, 1]."""
    gradients: tuple[Number, ...] | None = None
    """(P,) L2 norm of the gradient that the update found; None at a parameter that had none."""
    filled: tuple[float | None, ...] | None = None
    """(P,) part of the gradient's elements that are not 0, in [0, 1]."""
    starts: tuple[Number, ...] | None = None
    """(P,) of the first update: size of each parameter before it."""
    projections: tuple[tuple[float, ...] | None, ...] | None = None
    """(P,) of the first two updates: 16 projections of the gradient, each a sum of the elements with fixed factors, so
    that the distance of two gradients is known to a quarter of itself. None where it is 0, or nothing is there."""
    residues: tuple[float | None, ...] | None = None
    """(P,) part of the gradient's elements that are not 0, but below a millionth of the largest: mostly what rounding
    leaves of a sum that is 0."""
    departures: tuple[Number, ...] | None = None
    """(P,) distance of the update from what the optimizer's own formula makes of the gradient that it found, as a part
    of the change; None where no formula is known for the optimizer."""
    buffers: tuple[Number, ...] | None = None
    """(B,) how far the tensors `Run.untrained` are from where they were at the first step, as an L2 norm; None for one
    that is gone, or has another shape."""
    directions: tuple[str | None, ...] | None = None
    """(P + B,) signs of 64 random projections, as 16 hexadecimal digits, of each parameter's gradient and of the way
    that each of `buffers` has come: the part of the signs in which two differ, times pi, is about the angle between
    them. None where it is 0, or nothing is there."""


COPY = "A copy of the parameters"
"""Name of what a dictionary or list holds that has a tensor for each of them: an average, in whatever form."""
FILE = "The file "
"""Begins the name of what `torch.save` wrote, before that of the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateDigest:
    """What an object held that can be saved with a training (it has a `state_dict`, or is a copy of the parameters)."""

    step: int
    """At whose end."""
    name: str
    """Of its class, or `COPY`; several may have the same. Of several modules of one class: "MLP (critic)"."""
    digest: str
    """Of all that it held (of tensors with more than 65,000 elements, of so many)."""
    counts: str
    """Of its integers, truth values and texts alone: no rounding changes them. Of a part of torch's, these themselves:
    "momentum 0.1, training True"."""
    parameters: str = ""
    """Of its parameters alone, which ranks of data-parallel training share; empty for what has none."""
    sketch: tuple[float, ...] = ()
    """(16,) random projections of its floating-point numbers, which tell how far two are apart; empty without any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HotLine:
    """A line of the user's source in which the training thread was met, by a sampling look at it."""

    path: str
    line: int
    function: str
    text: str
    """The line itself, stripped."""
    phase: Phase
    """In which phase it was met."""
    step_s: float
    """Seconds of a step spent in it, what it calls included."""
    inside: bool = True
    """False: the line only drew the batch or called the pass, and none of the user's code ran within."""
    library: str = ""
    """The package that the line calls, where most of that time passes in it ("accelerate"); torch is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """Something at a line of the user's source that costs time, or is wrong."""

    kind: SightingKind
    what: str
    """The call: "Tensor.item", "TransformerEncoderLayer"."""
    path: str | None
    """None where no line of the user's was on the stack."""
    line: int | None
    text: str = ""
    """The line itself, stripped."""
    per_step: float
    """Times a step."""
    cost_s: float | None = None
    """Seconds a step; None where it was not measured."""
    num_bytes: float | None = None
    """Bytes a step, for copies."""
    detail: Mapping[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchFacts:
    """Global switches of torch and of the environment, as they stood while the script trained."""

    anomaly_mode: bool = False
    deterministic: bool = False
    sync_debug: bool = False
    launch_blocking: bool = False
    profiler: bool = False
    """The script runs a profiler of its own."""
    cudnn_benchmark: bool = False
    cudnn_deterministic: bool = False
    matmul_precision: str = "highest"
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that matter here: OMP_NUM_THREADS, NVIDIA_TF32_OVERRIDE."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySample:
    """Memory at the end of a step."""

    step: int
    rss_bytes: int
    device_bytes: int | None = None
    """Allocated by tensors."""
    private_bytes: int | None = None
    """Of `rss_bytes`, what belongs to no file: pages of a memory-mapped data set come and go without harm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeFacts:
    """How many different shapes the model was given."""

    num_steps: int
    """Steps that were looked at."""
    num_shapes: int
    """Different shapes among them; counting stops at 1,000."""
    num_new_late: int
    """Of these, first seen in the second half of the steps."""
    new_steps: tuple[int, ...] = ()
    """Numbers of the steps (as in `Run.step_index`) that brought a shape not seen before; at most 1,000."""
    elements: Mapping[int, int] = field(default_factory=dict)
    """Number of a step -> elements of the tensors that the model was given; of the first 1,000 steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseCalls:
    """Operators called in one phase, per step. Seconds are their arithmetic: what a call costs as such is taken off."""

    calls: float
    arithmetic_s: float
    graph_calls: float = 0.0
    """Of `calls`, those on tensors that require gradients: the model's and the loss's own."""
    graph_s: float = 0.0
    """Of `arithmetic_s`, in these."""
    streaming_s: float = 0.0
    """Of `arithmetic_s`, in operators that move large tensors through memory and compute little on each number."""
    double_s: float = 0.0
    """Of `arithmetic_s`, the model's that makes float64."""
    inside_s: float = 0.0
    """Seconds within operators as they were seen, whatever they went into: a core that others use, too."""
    graph_inside_s: float = 0.0
    """Of `inside_s`, in those of `graph_calls`."""
    lines: Mapping[str, float] = field(default_factory=dict)
    """"/home/me/train.py:12" -> seconds that operators called there take, those of the model in `Phase.OTHER`, and that
    the memory of large results may take when it goes. In forward passes and the script's own code."""
    line_calls: Mapping[str, float] = field(default_factory=dict)
    """Line as in `lines` -> how many they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFacts:
    """What the operators of a step do in each phase, seen one by one at a few steps of their own (on the CPU only)."""

    call_s: float
    """What one call of a tiny operator costs in a plain loop here, gradients recorded."""
    phases: Mapping[Phase, PhaseCalls]
    plain_s: Mapping[Phase, float] = field(default_factory=dict)
    """Median seconds of each phase in steps next to them that were not looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """The same training under another setting, in blocks that take turns with its own."""

    setting: str
    """"threads", "anomaly-mode", "deterministic", "profiler"."""
    now: Scalar
    other: Scalar
    now_s: float
    """Median step as the script has it."""
    other_s: float
    """Median step under `other`."""
    agree: float
    """Part of the pairs of blocks that say the same as the medians, in [0, 1]."""
    log_ratios: tuple[float, ...] = ()
    """Of each pair: logarithm of (step as the script has it / step under `other`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankFacts:
    """One process of several that train together, over the steps that all recorded: means of what is held together, so
    that waiting and transfer add up to its communication; medians of what it does alone, which no stall moves."""

    rank: int
    host: str
    step_s: float
    compute_s: float
    """The step without communication."""
    wait_s: float | None
    """Waiting for the slowest rank, inside of communication."""
    transfer_s: float | None
    """The rest of its communication: data on their way."""
    phase_s: Mapping[Phase, float | None] = field(default_factory=dict)
    """Phase -> its median a step; None where it was not measured."""
    hot_lines: tuple[HotLine, ...] = ()
    """Of each phase the line of the script's own code that takes longest in this process."""

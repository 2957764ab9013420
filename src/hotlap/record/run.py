"""One execution of the script, step by step. Seconds, bytes, shares in [0, 1].

Shape letters: S recorded steps (index i is the same step in every (S,) field), G parameter groups, P parameters,
B tensors that are not trained.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hotlap.record.cpu import CpuUse
from hotlap.record.facts import (
    CallFacts,
    CallSite,
    HotLine,
    LoaderFacts,
    MemorySample,
    OptimizerFacts,
    PhaseCalls,
    RankFacts,
    ShapeFacts,
    Sighting,
    StateDigest,
    SwitchFacts,
    Update,
    WhatIf,
)
from hotlap.record.moments import InputPart, Number, Phase, Status, median
from hotlap.record.operators import OperatorWindow
from hotlap.record.plan import SCHEMA, LeverSpec
from hotlap.units import duration, percent

GENERATORS = "generators"

GIVEN = "ReduceLROnPlateau.step"
"""Begins a line of `Run.printed` that holds a scheduler's metric."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """What one part of the machine did from one moment to another."""

    lane: str
    """"loader", "host", "device", "copies" or "network"."""
    phase: Phase
    begin_s: float
    """From the begin of the step at which the spans start. On one lane a span may lie within another."""
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """Some successive steps as they really went."""

    first: int
    """Number of its first step in the training, from 0; of a trace, in that."""
    ends_s: tuple[float, ...]
    """At which its steps end, from the begin of the first; hotlap's own work is in no step's time."""
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LongRun:
    """All recorded steps of a run that was followed to its end; `Run.step_s` holds a sample of them."""

    num_steps: int = 0
    total_s: float = 0.0
    """Sum of all step times."""
    longest_s: float = 0.0
    """The longest step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One execution of the user's script, as the probe saw it. Later stages read this and nothing else."""

    status: Status
    schema: int = SCHEMA
    error: str | None = None
    """One sentence, when `status` is not COMPLETE."""
    exit_code: int | None = None
    """The script's own; None where hotlap ended it."""
    whole_s: float | None = None
    """From the start of its process to its end, of a training for real (`Plan.only_levers`)."""
    output: str = ""
    """End of what the script printed to stderr (all of a short one), as it is."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """"python", "torch", "hotlap" and the like."""
    device: str = "cpu"
    """Where the parameters live: "cpu", or the name that the driver gives."""
    device_type: str | None = None
    """As torch calls it: "cpu", "cuda" (ROCm's as well), "xpu"; None in records made before."""
    num_threads: int | None = None
    """torch's intra-op threads at the first recorded step."""
    seed: int | None = None
    reseed: int = 0
    """As in the plan: added to the script's own seeds."""
    perturbation: int = 0
    """As in the plan: not 0 if the parameters were moved by rounding errors on purpose."""
    arms: tuple[tuple[LeverSpec, ...], ...] = ((),)
    always: tuple[LeverSpec, ...] = ()
    setup_s: float | None = None
    """From the start of the process to the end of its first step."""
    own_start_s: float = 0.0
    """Of that, what hotlap took: its imports and its hooks. A process of the user's starts without it."""
    forked: bool = False
    """The process began as a fork of one that had made the script's imports, so `setup_s` holds none of them."""
    first_steps_s: tuple[float, ...] = ()
    """Durations of the warm-up steps, the first included (at most 2,000 kept)."""
    planned_steps: int | None = None
    """Steps that the training will make, as the loops around its steps say; None where they do not."""
    trains_again: str | None = None
    """"train.py:45", where the script trains once more: behind these loops, in others, or in the next turn of a loop
    around them, another model. `planned_steps` is that of the loops under way, and the steps that are made first are of
    the first part. None where no other is seen."""
    step_s: tuple[float, ...] = ()
    """(S,) wall time from the end of one step to the end of the next."""
    phase_s: Mapping[Phase, tuple[float, ...] | None] = field(default_factory=dict)
    """Phase -> (S,), summing to `step_s`; None where the phase could not be measured."""
    device_phase_s: Mapping[Phase, tuple[float, ...] | None] = field(default_factory=dict)
    """Phase -> (D,) seconds by events of the device, in D steps of their own; empty without a device.

    What the device's stream passes there: INPUT, SYNC and OTHER are the time in which it waited for the host. Another
    clock than `phase_s`: never add the two."""
    input_s: Mapping[InputPart, float | None] = field(default_factory=dict)
    """Part -> mean seconds a step, within the input phase; None where it could not be measured."""
    order_seed: int = 0
    """As in the plan: drew the order in which arms, or the processes of a trial group, took turns."""
    arm: tuple[int, ...] = ()
    """(S,) index into `arms`."""
    block: tuple[int, ...] = ()
    """(S,) number of the block or turn, from 0."""
    step_index: tuple[int, ...] = ()
    """(S,) number of the step in the training, from 0: warm-up counts."""
    epoch_starts: tuple[int, ...] = ()
    """Indices into (S,) of the steps in which a loader was started anew that is trained on, and not only looked at."""
    loss: tuple[Number, ...] = ()
    """(S,) sum of the scalars that backward was called on within the step."""
    num_samples: tuple[int | None, ...] = ()
    """(S,) samples drawn from loaders, or None without one."""
    num_updates: tuple[int, ...] = ()
    """(S,) optimizer steps that were made."""
    num_forwards: tuple[int, ...] = ()
    """(S,) outermost calls of modules (a loss module counts as one), and solves: how much work the step was."""
    learning_rates: tuple[tuple[float, ...], ...] | None = None
    """(S, G) of all parameters, in the order of `trained` and without repeats; None when not recorded."""
    batch_digest: tuple[str | None, ...] | None = None
    """(S,) digest of the bytes of all batches drawn, or of what the model was called with when there is no loader."""
    rows_digest: tuple[str | None, ...] | None = None
    """(S,) of the same samples, whatever their order and however many batches they are in: equal where each input comes
    with the same label. None also where labels may have come another way than through modules."""
    num_backwards: tuple[int, ...] | None = None
    """(S,) backward passes from losses."""
    num_added: tuple[int, ...] | None = None
    """(S,) backward passes that had added to the gradients of an update since one found these cleared, of all updates
    together."""
    forgetful_updates: tuple[int, ...] | None = None
    """(S,) of `num_updates`, those by an optimizer that had lost what it kept (averages, momentum)."""
    given: tuple[tuple[int, int, int] | None, ...] | None = None
    """(S,) rows, numbers in them, and the most rows at once, that models were given to train on, equal ones of a step
    once; None where they were given none."""
    content: tuple[tuple[float, ...] | None, ...] | None = None
    """(S,) how what models were given to train on is distributed: means over the samples of their length, of sums of
    their elements with fixed signs, of squares of these, and of waves of the elements. Draws from one distribution
    differ in them by chance alone. None where models were given nothing."""
    between: tuple[tuple[float, ...] | None, ...] | None = None
    """(S,) the same of how far two batches of one shape are apart, where models (a student and its teacher) are given
    two in the step, or several are given one, in training or not."""
    fresh_samples: tuple[float | None, ...] | None = None
    """(S,) part of the samples that models were given to train on that had not come in an earlier step, nor twice in
    this one, in [0, 1]; None where they were given none."""
    fresh_inputs: tuple[tuple[float | None, ...] | None, ...] | None = None
    """(S, inputs) the same of each input by itself, where models were given several with as many rows."""
    fresh_batches: tuple[float | None, ...] | None = None
    """(S,) the same of the tensors of which batches are made, each as a whole."""
    fresh_looks: tuple[float | None, ...] | None = None
    """(S,) the same of the samples that models were given without gradients: by a validation, or a teacher."""
    draws: tuple[tuple[bool | None, ...], ...] | None = None
    """(S, 3) whether torch's random numbers were drawn in forward passes with gradients, in those without, and
    elsewhere; None where there was no such pass."""
    drawn: tuple[Mapping[str, int], ...] | None = None
    """(S,) how many random numbers the process drew since the step before, or since it began, by their distribution
    ("uniform", "normal" ...); and how many generators it made of which that is not known (`GENERATORS`)."""
    clips: tuple[tuple[str, bool] | None, ...] | None = None
    """(S,) to what gradients were clipped ("norm 1", "" for no limit), and whether their norm was beyond it; None where
    that is not known, as within what torch.compile made."""
    dropouts: tuple[tuple[float | None, int, int], ...] | None = None
    """(probability to drop an element, calls, elements) of what forward passes with gradients would drop at random in
    the first two steps, and keep there; without a probability: of what they draw otherwise. None where that is not
    known, and elements are dropped, as beside torch.compile."""
    precision: str | None = None
    """The shortest floating-point numbers that forward passes with gradients made in these two steps, and how factors
    of float32 are rounded: "4 bytes, highest". None where that is not known, as beside torch.compile."""
    rng_digest: tuple[str, ...] | None = None
    """(S,) digest of the states of Python's, NumPy's and torch's generators at the end of the step."""
    sources_digest: tuple[str, ...] | None = None
    """(S,) digest of the states of these and of the script's own generators, as each batch of a loader left them and at
    the end of the step."""
    settings_digest: tuple[str, ...] | None = None
    """(S,) digest of the optimizers' settings except learning rates and the choice of kernel."""
    updates: tuple[Update, ...] | None = None
    trained: tuple[str, ...] = ()
    """(P,) the parameters of all optimizers, as models name them and in their order ("Net.head.weight")."""
    untrained: tuple[str, ...] = ()
    """(B,) tensors that the script holds and no optimizer trains: buffers, averaged weights ("Net.bn.running_var")."""
    states: tuple[StateDigest, ...] | None = None
    """At some steps; None when not recorded."""
    printed: tuple[tuple[int, str], ...] = ()
    """(steps made before, line) of what the script wrote to stdout after its first step, in runs for the gate; among
    them what it gave to a scheduler that goes by a metric, behind `GIVEN`."""
    written: tuple[str, ...] | None = None
    """Names of the files that the script had written to its folders at the end of a run for the gate, but for hidden
    ones; None where the folders could not be covered, or where they are thousands."""
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
    """Of tensors, on the fullest device."""
    device_reserved_bytes: int | None = None
    """The same for the allocator, which keeps more than it gives."""
    device_free_bytes: int | None = None
    """On that device, left by this process and all others at the end."""
    hot_lines: tuple[HotLine, ...] = ()
    """Costliest first."""
    sightings: tuple[Sighting, ...] = ()
    operators: OperatorWindow | None = None
    switches: SwitchFacts | None = None
    cpu: CpuUse | None = None
    memory: tuple[MemorySample, ...] = ()
    """Thinned out evenly over the run; at most 512."""
    shapes: ShapeFacts | None = None
    rank: int = 0
    world_size: int = 1
    host: str | None = None
    """Name of the machine; None but where several processes train together."""
    collectives_on_device: bool = False
    """They run on a device: the host is hardly held by them, so its times say nothing."""
    collectives_of_some: bool = False
    """The script has called collectives of some of the processes only (a subgroup, send and receive)."""
    ranks: tuple[RankFacts, ...] = ()
    """All processes that train together, merged; empty for one."""
    peers: tuple["Run", ...] = ()
    """In runs for the gate: those of the other ranks, in their order, each with the evidence of its own process."""
    num_validations: int = 0
    """Stretches without training between steps (a validation); their time is in no step."""
    validation_s: float = 0.0
    """Seconds of all of them."""
    validation_input_s: float = 0.0
    """Of these, in loaders: starting them, waiting for their batches, ending them."""
    probe_s: float | None = None
    """What the probe itself cost a recorded step: its work between steps, and what it wrote in them at its price. None
    but where the plan has profilers."""
    not_installed: tuple[str, ...] = ()
    """Levers that could not be installed, each with the reason: this run says nothing about them."""
    unreached: tuple[str, ...] = ()
    """Of the plan's `replaced` files, those of which the process ran another text; of several processes, each with its
    rank. This run says nothing about the edits."""
    marks: tuple[int, ...] = ()
    """Of a script that has some (`hotlap.source.marks`) those that any of its processes has passed."""
    notes: tuple[str, ...] = ()
    """What the reader should know: a cache that was dropped, say."""
    workload: str | None = None
    """What one step does, as JSON of `hotlap.predict.Workload`; None unless the plan's profilers asked for it."""
    long: LongRun | None = None
    """All steps of a run that was followed to its end; the (S,) fields then hold a sample of them: whole blocks of
    successive steps, drawn evenly over the run."""
    calls: CallFacts | None = None
    what_ifs: tuple[WhatIf, ...] = ()
    excerpt: Excerpt | None = None
    """Of a script that was killed its last steps, else usual ones; None where none was seen whole."""
    from_trace: bool = False
    """Read from a profiler's trace: of where and how it was made only that tells."""

    @property
    def page_faults_share(self) -> float:
        """Part of the time that the kernel takes to hand out memory anew, in [0, 1]: all cores at work take their
        share of the faults."""
        use = self.cpu
        return 0.0 if use is None else min(1.0, use.page_faults * use.page_fault_s / max(1.0, use.main))

    @property
    def on_cpu(self) -> bool:
        """The parameters live on the CPU."""
        return self.device == "cpu"

    def share(self, phase: Phase) -> float | None:
        """Part of the recorded time spent in `phase`, in [0, 1]; None where it was not measured."""
        parts = self.phase_s.get(phase)
        total = sum(self.step_s)
        return sum(parts) / total if parts is not None and total > 0 else None

    def main_loader(self) -> LoaderFacts | None:
        """The loader that gave most of the batches that were trained on; None where there is none."""
        used = (one for one in self.loaders if one.trained_on)
        return max(used, key=lambda one: one.num_trained, default=None)

    def epoch_steps(self) -> int | None:
        """Steps of an epoch of the loader that is trained on; None where there is none, or several, and as
        `epoch_steps_of` has it."""
        serving = [one for one in self.loaders if one.trained_on]
        return self.epoch_steps_of(serving[0]) if len(serving) == 1 else None

    def epoch_steps_of(self, loader: LoaderFacts) -> int | None:
        """Steps of an epoch of this loader; None where its length is not known, and where processes share its items and
        do not say how. A step that accumulates gradients takes several batches."""
        size = loader.batch_size
        samples = [count for count in self.num_samples if count]
        each = median(samples) if samples else size
        if loader.num_batches and size and each:
            return math.ceil(loader.num_batches / max(1, round(each / size)))
        if loader.num_batches is not None or self.world_size > 1 or not (loader.num_items and each):
            return None
        return math.ceil(loader.num_items / each)

    def epoch_gaps_s(self) -> tuple[float, ...]:
        """At each start of an epoch, seconds by which its batch is waited for longer than others in the median; empty
        where none was seen."""
        waits = self.phase_s.get(Phase.INPUT) or ()
        starts = {i for i in self.epoch_starts if i < len(waits)}
        others = [wait for i, wait in enumerate(waits) if i not in starts]
        return tuple(max(0.0, waits[i] - median(others)) for i in sorted(starts)) if others else ()

    def median_step_s(self) -> float:
        """Median step time; NaN without a step."""
        return median(self.step_s) if self.step_s else math.nan

    def mean_step_s(self) -> float:
        """Mean step time; 0 without a step."""
        return sum(self.step_s) / len(self.step_s) if self.step_s else 0.0

    def share_of(self, seconds: float) -> float:
        """Part of the mean step; 0 where no step was recorded."""
        step_s = self.mean_step_s()
        return seconds / step_s if step_s > 0 else 0.0

    def with_share(self, seconds: float, of: str = "") -> str:
        """ "1.20 ms (40% of it)": seconds of a step, and the part of the mean step that they are."""
        return f"{duration(seconds)} ({percent(min(1.0, self.share_of(seconds)))}{of})"

    def mean_phase_s(self, phase: Phase) -> float | None:
        """Mean time a step spends in `phase`; None where it was not measured."""
        parts = self.phase_s.get(phase)
        return sum(parts) / len(parts) if parts else None

    def calls_in(self, phase: Phase) -> PhaseCalls:
        """Operators that were seen one by one in `phase`; of no calls where none was looked at."""
        seen = self.calls.phases.get(phase) if self.calls is not None else None
        return seen or PhaseCalls(calls=0.0, arithmetic_s=0.0)


def of_arm(run: Run, arm: int) -> Run:
    """The steps made under `arm`, as a run of its own; of a run without evidence, for arms share one training."""
    places = [i for i, which in enumerate(run.arm) if which == arm]
    place_of = {old: new for new, old in enumerate(places)}

    def pick(values: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(values[i] for i in places) if values else ()

    each = ("step_s", "block", "step_index", "loss", "num_samples", "num_updates", "num_forwards")
    picked: dict[str, Any] = {name: pick(getattr(run, name)) for name in each}
    return replace(
        run,
        arms=(run.arms[arm],),
        arm=(0,) * len(places),
        phase_s={phase: None if values is None else pick(values) for phase, values in run.phase_s.items()},
        epoch_starts=tuple(place_of[i] for i in run.epoch_starts if i in place_of),
        first_steps_s=(),
        **picked,
    )

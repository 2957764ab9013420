"""The words for what a moment of a run was: phases, ends, numbers that may be anything or are not known exactly."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from hotlap.units import factor


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


def median(values: Iterable[float]) -> float:
    """Not that of `statistics`: the probe imports this, and a file of that name is often the script's.

    Raises:
        IndexError: there are no values.
    """
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def as_number(value: float | None) -> Number:
    """A float -> what the record holds for it."""
    if value is None or math.isfinite(value):
        return value
    return NonFinite(str(float(value)))


def as_float(number: Number) -> float | None:
    """What the record holds -> the float, NaN and infinities restored."""
    return float(number.value) if isinstance(number, NonFinite) else number


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A 95% confidence interval, unless its holder says otherwise."""

    low: float
    mid: float
    high: float

    @property
    def ends(self) -> str:
        """Of a speed-up: "1.79-1.88x"."""
        return f"{factor(self.low)[:-1]}-{factor(self.high)}"

    @property
    def told(self) -> str:
        """Of a speed-up: "1.83x (1.79-1.88x)"."""
        return f"{factor(self.mid)} ({self.ends})"


class InputPart(StrEnum):
    """What a moment of the input phase was spent on; the parts of a step sum to at most its input time."""

    INDICES = "indices"
    """Drawing indices from the sampler."""
    ITEMS = "items"
    """Making the items, in the training process: `__getitem__`, the transforms that it calls left out."""
    TRANSFORMS = "transforms"
    """The data set's `transform` and `target_transform`, in the training process."""
    COLLATE = "collate"
    """Making a batch of items, in the training process."""
    WORKERS = "workers"
    """Waiting for a worker's batch."""
    START = "start"
    """Making the iterator and starting its workers, at an epoch's start."""

    @property
    def words(self) -> str:
        """For people."""
        return _INPUT_WORDS[self]


_INPUT_WORDS = {
    InputPart.INDICES: "drawing indices",
    InputPart.ITEMS: "making the items in the data set",
    InputPart.TRANSFORMS: "the data set's transforms",
    InputPart.COLLATE: "collating items into batches",
    InputPart.WORKERS: "waiting for workers",
    InputPart.START: "starting the loader",
}


class SightingKind(StrEnum):
    """What can be seen at a line of the script."""

    SYNC = "sync"
    """The host waits for the device: `.item()`, `.cpu()`, printing a tensor, `nonzero()`."""
    BLOCKING_COPY = "blocking-copy"
    """Something is copied to the device while the host waits: a batch, or what was made on the host in that step."""
    WASTED_FORWARD = "wasted-forward"
    """A forward pass with gradients whose result never reaches a backward pass."""
    SINGLE = "single"
    """A forward pass with gradients that is given one sample, and no result of another one."""
    EVALUATION = "evaluation"
    """A forward pass without gradients, in evaluation mode, of a module that is trained."""
    FROZEN = "frozen"
    """A forward pass without gradients of a module that nothing trains, on a batch as the loader gave it."""
    ATTENTION_OVER_BATCH = "attention-over-batch"
    """A module with `batch_first=False` is given what looks like batch-first input."""
    PROMOTED = "promoted"
    """An operator of the model is given float32 and float64, and makes float64."""
    UNCHANGED = "unchanged"
    """Operators on data alone are given the same, and make the same of it, in each step."""
    ZEROS = "zeros"
    """A product with a matrix of data that is nearly all 0."""
    PADDING = "padding"
    """The model is given batches with columns that are padding in all rows."""
    DENSE_GRADIENT = "dense-gradient"
    """An embedding whose gradient is dense; how many of its rows a step touches."""


class IdleReason(StrEnum):
    """What the device of a trace waited for."""

    INPUT = "the loader"
    SYNC = "the host, which had waited for the device and only then went on"
    ALLOCATION = "memory to be allocated or freed"
    CALLS = "the host to launch one kernel after the other"
    OPERATORS = "operators on the host, beyond what a launch takes"
    PYTHON = "the script's own Python"
    LAUNCH = "work that was launched already (latency, another stream)"

"""Where the steps of a trace begin and end, on the host; and the threads that train."""

from dataclasses import dataclass

import numpy as np

from hotlap.trace.table import ON_DEVICE, Floats, Kind, Mask, Trace
from hotlap.trace.timeline import launched

# No training makes so many steps that their number is longer.
_PROFILED = r"ProfilerStep#\d{1,18}(?!\d)"
_UPDATE = r"Optimizer\.step#"
# Steps at the beginning that take more than this many times the median are still a start.
_USUAL = 3.0
_WHOLE = "nothing: all that was recorded counts as one step"


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """(S + 1,) edges: step i lasts from edge i to edge i + 1."""

    edges: Floats
    how: str
    """What told them apart, as a clause."""
    first: int = 0
    """Number of the first one, by the profiler's marks: ranks of one job count alike."""

    @property
    def start(self) -> float:
        """Of the first step."""
        return float(self.edges[0])

    @property
    def end(self) -> float:
        """Of the last step."""
        return float(self.edges[-1])


def find(trace: Trace) -> Steps:
    """By the profiler's own marks, else by the updates of an optimizer; else all that was recorded is one step."""
    host = trace.which(Kind.ANNOTATION)
    marked = np.flatnonzero(host & trace.named(_PROFILED))
    if len(marked):
        edges = np.append(trace.start[marked], trace.end[marked[-1]])
        first = int(trace.text(int(marked[0])).partition("#")[2])
        return Steps(edges=edges, how="the profiler's own marks (ProfilerStep)", first=first)
    updates = np.flatnonzero(host & trace.named(_UPDATE))
    if len(updates):
        # Of several optimizers the one that steps least often: a GAN makes two updates of one network a step.
        names, counts = np.unique(trace.name[updates], return_counts=True)
        ends = np.sort(trace.end[updates[trace.name[updates] == names[np.argmin(counts)]]])
        if len(ends) > 1:
            how = f"the ends of {trace.names[names[np.argmin(counts)]]}"
            return Steps(edges=_settled(ends), how=how)
    rows = launched(trace) if trace.which(*ON_DEVICE).any() else np.ones(len(trace.start), bool)
    calls = trace.launch[rows & (trace.launch >= 0)]
    first = trace.start[calls].min() if len(calls) else trace.start[rows].min()
    return Steps(edges=np.array([first, trace.end[rows].max()]), how=_WHOLE)


def _settled(edges: Floats) -> Floats:
    """Without what a training does at its start only (workers, cuDNN's choices), where no schedule left that out."""
    lengths = np.diff(edges)
    usual = _USUAL * np.median(lengths)
    most = len(lengths) // 3
    while most and lengths[0] > usual:
        edges, lengths, most = edges[1:], lengths[1:], most - 1
    return edges


def on_device(trace: Trace, steps: Steps, rows: Mask) -> Floats:
    """(S + 1,) edges at which the host had come so far, and the device was done with all that was launched before.

    The host may run ahead of the device: its own steps are as long as launching takes then, and say little.
    """
    run = np.flatnonzero(rows)
    called = trace.called()[run]
    order = np.argsort(called, kind="stable")
    done = np.maximum.accumulate(trace.end[run][order])
    upto = np.searchsorted(called[order], steps.edges)
    edges = np.where(upto > 0, np.maximum(steps.edges, done[np.maximum(upto - 1, 0)]), steps.edges)
    if upto[0] == 0:
        # Work from before the recording may still run, at most until ours begins.
        first = trace.start[run].min()
        older = trace.which(*ON_DEVICE) & ~rows & (trace.start < first)
        edges[0] = min(max(steps.start, trace.end[older].max(initial=steps.start)), first)
    return np.maximum.accumulate(edges)


def training_threads(trace: Trace, steps: Steps) -> frozenset[int]:
    """Lanes of the threads that launched something in these steps, or marked them."""
    inside = (trace.start >= steps.start) & (trace.start < steps.end)
    calls = trace.launch[inside & (trace.launch >= 0)]
    marks = inside & trace.which(Kind.ANNOTATION) & trace.named(f"{_PROFILED}|{_UPDATE}|enumerate")
    return frozenset(int(one) for one in np.concatenate((trace.lane[calls], trace.lane[marks])))

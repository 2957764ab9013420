"""The steps that `hotlap measure` looks at under a profiler: what the probe recorded, and their trace -> the record."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median

from hotlap.errors import UserError
from hotlap.record import Phase, Run
from hotlap.trace import phases, spans, steps, table
from hotlap.trace.reading import window
from hotlap.trace.seen import Seen
from hotlap.trace.timeline import by_work
from hotlap.trace.work import StepKernels

_Column = tuple[float, ...]


def completed(run: Run, path: Path) -> Run:
    """`run` with what its trace says of the operators and the device; what was counted without a profiler stays where
    there is no trace, or none that can be read."""
    counted = run.operators
    if counted is None or not path.is_file():
        return run
    try:
        trace = table.read(path)
    except UserError as error:
        return replace(run, operators=replace(counted, why_not=str(error)))
    told = steps.find(trace)
    # The script may have ended within a step.
    told = replace(told, edges=told.edges[: counted.num_steps + 1])
    device = next(iter(by_work(trace)), None)
    seen = Seen(trace, told, device)
    trained_there = device is not None or run.device_type not in (None, "cpu")
    shown = window(seen, None if device is None else StepKernels(seen), on_device=trained_there)
    run = replace(
        run,
        operators=replace(shown, dispatch_s=counted.dispatch_s, flops=counted.flops, moved_bytes=counted.moved_bytes),
    )
    if device is None or not shown.complete or not run.device_phase_s:
        return run
    return replace(run, device_phase_s=_by_kernels(run.device_phase_s, seen))


def _by_kernels(told: Mapping[Phase, _Column | None], seen: Seen) -> dict[Phase, _Column | None]:
    """The device's own phases know what runs between the begin and the end of a call; the kernels know more.

    What is launched in no call of a module (a loss function, a model that is a function) is forward, not other. What
    computes nothing while it waits for another process is communication, whichever call it was launched in: FSDP
    gathers its weights within the forward pass. Seconds are moved from one phase to the other; their sum stays.
    """
    columns, computing = dict(told), phases.launched(seen).computing
    forward_s = spans.length(computing[Phase.FORWARD]) / seen.count
    _move(columns, Phase.OTHER, Phase.FORWARD, forward_s - _typical(columns, Phase.FORWARD))
    exposed_s = spans.length(seen.timeline.exposed_communication) / seen.count
    hidden_s = exposed_s - _typical(columns, Phase.COMMUNICATION)
    for phase in (Phase.FORWARD, Phase.BACKWARD):
        computing_s = spans.length(computing[phase]) / seen.count
        moved_s = min(hidden_s, _typical(columns, phase) - computing_s)
        _move(columns, phase, Phase.COMMUNICATION, moved_s)
        hidden_s -= max(0.0, moved_s)
    return columns


def _typical(columns: Mapping[Phase, _Column | None], phase: Phase) -> float:
    column = columns.get(phase)
    return median(column) if column else 0.0


def _move(columns: dict[Phase, _Column | None], source: Phase, target: Phase, seconds: float) -> None:
    """As many seconds of each step as it has."""
    giving = columns.get(source)
    if not giving or seconds <= 0:
        return
    moved = [min(seconds, one) for one in giving]
    taking = columns.get(target) or (0.0,) * len(giving)
    columns[source] = tuple(one - part for one, part in zip(giving, moved, strict=True))
    columns[target] = tuple(one + part for one, part in zip(taking, moved, strict=True))

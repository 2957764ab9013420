"""A recorded trace -> one step as a workload, to be forecast on other GPUs (`hotlap predict --trace`).

Operations of matrix products, convolutions and attention come from shapes, where these were recorded. All else is
told by how long it took on the device that it ran on: bytes at a usual part of its bandwidth, operations of its peak.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from hotlap.errors import UserError
from hotlap.predict.catalogue import Device, resolve
from hotlap.predict.precision import Precision, matrix_rate
from hotlap.predict.workload import Kind, Operator, Workload
from hotlap.record import Phase
from hotlap.trace import arguments, kernels
from hotlap.trace.kernels import Work
from hotlap.trace.phases import COMPUTING
from hotlap.trace.reading import Reading
from hotlap.trace.table import Kind as What

# All others run on lanes.
_KINDS = {
    Work.ATTENTION: Kind.MATMUL,
    Work.CONVOLUTION: Kind.CONV,
    Work.MATRIX: Kind.MATMUL,
    Work.RECURRENT: Kind.MATMUL,
}
_TO_DEVICE = r"Memcpy HtoD|CopyHostToDevice"
# Usual parts of the peaks. A forecast is brought to the step that was measured, so they move only the balance.
_OF_BANDWIDTH, _OF_PEAK = 0.75, 0.5
_BYTES = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2, "uint8": 1, "int8": 1}
# From this part of the step on the loader is what it waits for (as the rule input-bound takes it, on the safe side).
INPUT_BOUND_SHARE = 0.2
_ALONE = r".*_SingleProcessDataLoaderIter"


@dataclass
class _Group:
    """Kernels of one kind, launched by equal operators in one part of the step."""

    seconds: float = 0.0
    kernels: int = 0
    operators: set[int] = field(default_factory=set)


def workload(one: Reading, *, devices: Iterable[Device] = ()) -> Workload:
    """One step in the mean, of one process; its communication is left out, for a forecast adds its own.

    Arguments:
        one: what was read of the trace.
        devices: besides those of the catalogue.

    Raises:
        UserError: the catalogue does not know the device, or nothing but communication ran on it.
    """
    device = resolve(one.run.device, extra=devices).device
    groups = _groups(one)
    if not groups:
        raise UserError(f"{one.trace.title} holds no kernel that computes within its steps: nothing to forecast.")
    precision = one.kernels.precision()
    steps = len(one.run.step_s)
    input_s, workers = _input(one)
    notes = [f"read from a trace of {one.run.device}"]
    if one.run.world_size > 1:
        notes.append("its communication is left out")
    return Workload(
        operators=tuple(_operator(one, key, group, device, precision, steps) for key, group in groups.items()),
        name=one.trace.title,
        precision=precision,
        matmul_tf32=precision is Precision.TF32,
        batch_bytes=_copied_bytes(one) / steps,
        input_s=input_s,
        input_workers=workers,
        notes=tuple(notes),
    )


def _copied_bytes(one: Reading) -> float:
    """To the device, launched within the steps."""
    trace = one.trace
    called = trace.start[np.maximum(trace.launch, 0)]
    inside = (trace.launch >= 0) & (called >= one.steps.start) & (called < one.steps.end)
    copies = one.rows & trace.named(_TO_DEVICE) & (trace.num_bytes > 0) & inside
    return float(trace.num_bytes[copies].sum())


_Key = tuple[str, int, Phase, Work]
"""Operator or else the kernel, its arguments (-1: not told), where it was launched, what it does."""


def _groups(one: Reading) -> dict[_Key, _Group]:
    trace, done = one.trace, one.kernels
    found: dict[_Key, _Group] = {}
    columns = (done.rows, done.operators, done.seconds, one.launched.phases[done.rows], trace.name[done.rows])
    for row, operator, seconds, phase, name in zip(*(each.tolist() for each in columns), strict=True):
        if trace.kind[row] == What.COMMUNICATION:
            continue
        kernel, caller = trace.names[name], trace.names[trace.name[operator]] if operator >= 0 else ""
        work = kernels.work_of(kernel, caller)
        stage = COMPUTING[phase] if COMPUTING[phase] in (Phase.BACKWARD, Phase.OPTIMIZER) else Phase.FORWARD
        key = (caller or kernel, int(trace.inputs[operator]) if operator >= 0 else -1, stage, work)
        group = found.setdefault(key, _Group())
        group.seconds += seconds
        group.kernels += 1
        if operator >= 0:
            group.operators.add(operator)
    return found


def _operator(one: Reading, key: _Key, group: _Group, device: Device, precision: Precision, steps: int) -> Operator:
    name, inputs, stage, work = key
    kind = _KINDS.get(work, Kind.VECTOR)
    count = len(group.operators) or group.kernels
    each_s = group.seconds / count
    given = arguments.read(one.trace.arguments[inputs]) if inputs >= 0 else arguments.Arguments((), "", ())
    flop, moved = 0.0, 0.0
    if kind is not Kind.VECTOR:
        told = arguments.flop(name, given)
        flop = each_s * _OF_PEAK * matrix_rate(device, precision, tf32=precision is Precision.TF32)
        flop = flop if told is None else told
        moved = sum(float(np.prod(shape)) for shape in given.shapes if shape) * _BYTES.get(given.dtype, 4)
    else:
        moved = each_s * _OF_BANDWIDTH * device.bandwidth
    return Operator(
        kind=kind,
        name=name,
        stage=stage,
        dtype=given.dtype or "float32",
        flop=flop,
        moved_bytes=moved,
        count=count / steps,
    )


def step_s(one: Reading) -> float:
    """Median step without the exchange that nothing hides: what one device alone would take."""
    exposed = one.run.phase_s.get(Phase.COMMUNICATION) or (0.0,) * len(one.run.step_s)
    return median(step - part for step, part in zip(one.run.step_s, exposed, strict=True))


def _input(one: Reading) -> tuple[float | None, int | None]:
    """One worker's seconds for a batch, and the number of workers; None where the input does not matter."""
    trace = one.trace
    loading = trace.which(What.ANNOTATION) & trace.named(_ALONE)
    inside = loading & (trace.start >= one.steps.start) & (trace.start < one.steps.end)
    if inside.any():
        return float((trace.end[inside] - trace.start[inside]).sum()) / len(one.run.step_s), 0
    if (one.run.share(Phase.INPUT) or 0.0) < INPUT_BOUND_SHARE:
        return None, None
    # Workers whose number no trace tells: together they deliver one batch a step.
    return step_s(one), 1

"""One training step as data: its operators and what travels. Portable JSON; says nothing about any device."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from hotlap.errors import UserError
from hotlap.predict.precision import Precision, parse
from hotlap.record import SCHEMA, Phase, codec

# Times that a step moves the parameters, whatever its batch: they are read forward and backward, their gradients are
# written, and Adam reads these, the parameters and its two moments, and writes three of the four.
PARAMETER_PASSES = 10.0
# Operators that take the host as long as what a training step has it do besides: the loop, `zero_grad`, the begin of
# `backward`, the optimizer's Python (an MNIST of 21 operators on an H200, benchmarks/predict/host.py).
STEP_OPERATORS = 30
# A call costs the host this much on top of what dispatching costs on a CPU: 1 to 3 us for the launch alone (CUDA 12);
# an operator takes 6.4 us beside an H200 and 1.2 us without one, on the same host (`hotlap machine`).
LAUNCH_S = 5e-6


class Kind(StrEnum):
    """What an operator does, as far as its speed depends on it."""

    MATMUL = "matmul"
    """Products, also those in attention and in recurrent layers: on matrix units where the precision has one."""
    CONV = "conv"
    """The same; but for grouped convolution with few channels a group: no matrix unit helps that."""
    VECTOR = "vector"
    """All that runs on lanes: elementwise, norms, reductions, gathers, copies, updates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """Equal operators of one step. Figures are of one of them; `count` says how many there are."""

    kind: Kind
    name: str = ""
    """aten's name, "aten::addmm"; empty where only totals are known."""
    stage: Phase = Phase.OTHER
    """Forward, backward or optimizer; OTHER: not known."""
    dtype: str = "float32"
    """Of the first tensor argument."""
    flop: float = 0.0
    """Multiplications and additions, counted as two, as torch.utils.flop_counter does."""
    moved_bytes: float = 0.0
    """Read and written."""
    count: float = 1.0
    """Not whole where a workload was made from totals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One training step. Bytes, seconds, operations; all of one process (one GPU)."""

    operators: tuple[Operator, ...]
    schema: int = SCHEMA
    name: str = ""
    precision: Precision = Precision.FP32
    """That the script itself computes in; measured times belong to it."""
    autocast: Precision | None = None
    """That the script asks of a GPU, where this run had none and computed in `precision` instead."""
    matmul_tf32: bool | None = None
    """Matrix products may use TF32 under "fp32"; None: not known."""
    parameter_bytes: float | None = None
    """As many are their gradients, which several GPUs have to add up after each step."""
    optimizer_state_bytes: float | None = None
    activation_bytes: float | None = None
    """Peak of what the forward pass keeps for the backward pass; None: not known."""
    batch_bytes: float | None = None
    """What travels from the host for each step."""
    batch_size: int | None = None
    host_s: float | None = None
    """Host time to dispatch one operator, measured where the workload was recorded; None: not known."""
    input_s: float | None = None
    """One worker's time to make a batch; None: not known, taken as free."""
    input_workers: int | None = None
    """0: made in the training process, one after the other with the step."""
    python_s: float = 0.0
    """A step's time in Python of the script's own, as far as it is seen to be no part of calling operators."""
    totals_only: bool = False
    """Sizes of single operators are assumed, not seen."""
    notes: tuple[str, ...] = ()

    @property
    def flop(self) -> float:
        """Operations of one step."""
        return math.fsum(operator.flop * operator.count for operator in self.operators)

    @property
    def memory_bytes(self) -> float:
        """Bytes that the operators of one step read and write, each counted alone."""
        return math.fsum(operator.moved_bytes * operator.count for operator in self.operators)

    @property
    def num_kernels(self) -> float:
        """Operators that a device runs in one step."""
        return math.fsum(operator.count for operator in self.operators)

    @classmethod
    def from_totals(
        cls,
        *,
        flop: float,
        memory_bytes: float,
        num_kernels: float,
        parameter_bytes: float | None = None,
        batch_bytes: float | None = None,
        precision: str | Precision = Precision.FP32,
        batch_size: int | None = None,
        kind: Kind = Kind.MATMUL,
    ) -> "Workload":
        """A step of which only sums are known.

        Arguments:
            flop: operations of forward, backward and optimizer together (a multiply-add counts as two).
            memory_bytes: what all operators read and write, each counted alone, in `precision`.
            num_kernels: operators that the device runs.
            parameter_bytes: of the parameters; gradients are taken to be as large. None: not known.
            batch_bytes: what travels from the host for each step. None: not known.
            precision: that all figures belong to; "amp" is fp16.
            kind: of most of the operations: `Kind.CONV` for a convolutional net.

        Raises:
            UserError: a figure is negative, not finite, or there is no work at all.
        """
        _check({"flop": flop, "memory_bytes": memory_bytes, "num_kernels": num_kernels})
        if num_kernels < 1 or flop + memory_bytes <= 0:
            raise UserError("A step needs at least one kernel, and operations or bytes.")
        fixed_bytes = min(PARAMETER_PASSES * (parameter_bytes or 0.0), memory_bytes)
        num_updates = 0.1 * num_kernels if fixed_bytes else 0.0
        num_others = num_kernels - num_updates
        moved_bytes = (memory_bytes - fixed_bytes) / num_others
        kind = kind if flop else Kind.VECTOR
        operators = [Operator(kind=kind, flop=flop / num_others, moved_bytes=moved_bytes, count=num_others)]
        if num_updates:
            of_one, stage = fixed_bytes / num_updates, Phase.OPTIMIZER
            operators.append(Operator(kind=Kind.VECTOR, stage=stage, moved_bytes=of_one, count=num_updates))
        return cls(
            operators=tuple(operators),
            precision=parse(precision),
            parameter_bytes=parameter_bytes,
            batch_bytes=batch_bytes,
            batch_size=batch_size,
            totals_only=True,
        ).validated()

    def validated(self) -> "Workload":
        """Itself, if every figure makes sense.

        Raises:
            UserError: a figure is negative or not finite, or there is no operator.
        """
        _check({name: getattr(self, name) for name in _FIGURES})
        for one in self.operators:
            _check(
                {"flop": one.flop, "moved_bytes": one.moved_bytes, "count": one.count}, f" of {one.name or one.kind}"
            )
        if not self.operators:
            raise UserError("The workload is empty: no operator was recorded.")
        return self

    def scaled(self, factor: float) -> "Workload":
        """The same step with `factor` times the batch: parameters and optimizer stay."""
        grown: dict[str, Any] = {
            name: value * factor
            for name in ("activation_bytes", "batch_bytes", "input_s")
            if (value := getattr(self, name)) is not None
        }
        if self.batch_size is not None:
            grown["batch_size"] = max(1, round(self.batch_size * factor))
        operators = (
            one
            if one.stage is Phase.OPTIMIZER
            else replace(one, flop=one.flop * factor, moved_bytes=one.moved_bytes * factor)
            for one in self.operators
        )
        return replace(self, operators=tuple(operators), **grown)


_FIGURES = (
    "parameter_bytes", "optimizer_state_bytes", "activation_bytes", "batch_bytes", "batch_size", "host_s", "input_s",
    "input_workers", "python_s",
)  # fmt: skip


def _check(figures: Mapping[str, float | None], of: str = "") -> None:
    for name, value in figures.items():
        if value is not None and not (math.isfinite(value) and value >= 0):
            raise UserError(f"The workload makes no sense: {name}{of} is {value}, not a number from 0 up.")


def load(path: Path) -> Workload:
    """Read what `hotlap.record.save` wrote.

    Raises:
        RecordError: the file cannot be read, is damaged, or newer than this hotlap.
        UserError: a figure in it makes no sense.
    """
    return codec.load(path, Workload).validated()

"""What single calls and copies would take on a GPU that is not here, with 80% intervals."""

import math
from collections.abc import Sequence

from hotlap.lab.result import Quantity, Unit
from hotlap.predict import Kind, Operator, Workload, forecast, resolve
from hotlap.predict.workload import Stage

# Half of an 80% interval of a normal distribution, in standard deviations.
_Z = 1.2816
# A call costs the host this much on top of what dispatching costs on a CPU (hotlap.probe.watches.workload).
LAUNCH_S = 5e-6
# A copy costs so much however small it is: about 10 us with its synchronisation
# (https://www.cs.virginia.edu/~mwb7w/cuda_support/memory_transfer_overhead.html), 5 to 7 us to submit one
# (arXiv 2602.21548, section 5.2).
_COPY_S, _COPY_SIGMA = 8e-6, 0.4
# Part of the slot's nominal rate: pinned 26.3 of 31.5 GB/s on an A100, 51 of 63 on an H100 (Azure's AI benchmarking
# guide); pageable memory is copied by the host once more: 0.4 (hotlap.predict.prediction), 1/2.4 of pinned (the page
# above).
_RATES = {"pinned": (0.82, 0.10), "pageable": (0.40, 0.30)}


def call(operator: Operator, gpu: str, *, host_s: float) -> Quantity:
    """One call in a long row of calls. `host_s`: what dispatching one takes on this machine's CPU."""
    work = Workload(operators=(operator,), matmul_tf32=False, host_s=host_s)
    return Quantity.of(forecast(work, target=gpu).step_s, predicted=True)


def replayed(operator: Operator, gpu: str) -> Quantity:
    """The same within a CUDA graph: the host has no part in it."""
    # Not 0, which says "not known"; a million calls would take the host a millisecond.
    return call(operator, gpu, host_s=1e-9)


def product(rows: int, inner: int, columns: int) -> Operator:
    """(rows, inner) times (inner, columns) in float32."""
    return Operator(
        kind=Kind.MATMUL,
        name="aten::mm" if columns > 1 else "aten::mv",
        stage=Stage.FORWARD,
        flop=2.0 * rows * inner * columns,
        read_bytes=4.0 * (rows * inner + inner * columns),
        written_bytes=4.0 * rows * columns,
    )


def copies(sizes: Sequence[float], gpu: str, *, kind: str) -> Quantity:
    """Copies of so many bytes each, one after the other, waited for. `kind`: "pinned" or "pageable" memory."""
    device = resolve(gpu).device
    share, sigma = _RATES[kind]
    fixed_s = _COPY_S * len(sizes)
    moving_s = sum(sizes) / (share * device.pcie_bytes_s)

    def at(z: float) -> float:
        return fixed_s * math.exp(_COPY_SIGMA * z) + moving_s * math.exp(sigma * z)

    return Quantity(value=at(0.0), unit=Unit.SECOND, low=at(-_Z), high=at(_Z), predicted=True)


def together(one: Quantity, other: Quantity) -> Quantity:
    """One after the other. Ends are added up, as if both were at their worst at once: no narrower than the truth."""
    low, high = ((one.low or 0.0) + (other.low or 0.0), (one.high or one.value) + (other.high or other.value))
    return Quantity(value=one.value + other.value, unit=Unit.SECOND, low=low, high=high, predicted=True)

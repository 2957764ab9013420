"""A step beside the best that this machine could do with the same operations and bytes."""

import math
from collections.abc import Iterator

from hotlap.machine.figures import find
from hotlap.record import Checkup, Figure, Limit, Run, StepLimits, Unit
from hotlap.units import duration, percent

# In the order in which they are asked for where nobody said how bytes are moved: a step reads about twice what it
# writes, as the triad does.
_BANDWIDTH = ("triad", "copy", "read")


def step_limits(
    run: Run,
    checkup: Checkup,
    *,
    flops_per_step: float | None = None,
    bytes_per_step: float | None = None,
    operators_per_step: float | None = None,
    dtype: str = "float32",
) -> StepLimits | None:
    """The floors of the run's median step; None where none can be told.

    Arguments:
        flops_per_step: floating-point operations of products and convolutions, forward and backward.
        bytes_per_step: read and written by all operators, where nothing stays in a cache.
        operators_per_step: number of operators that are called, forward and backward.
        dtype: of the products: "float32", "tf32", "bfloat16", "float16" or "float64".
    """
    step_s = run.median_step_s()
    device = _device(run, checkup)
    if device is None or not (math.isfinite(step_s) and step_s > 0):
        return None
    product = find(checkup.figures, "matmul", device=device, variant=dtype)
    memory = next((figure for name in _BANDWIDTH if (figure := find(checkup.figures, name, device=device))), None)
    operator = find(checkup.figures, "operator", device=device)
    floors = (
        *_rate_floor("compute", flops_per_step, product),
        *_rate_floor("memory", bytes_per_step, memory),
        *_count_floor(operators_per_step, operator),
    )
    limits = tuple(
        sorted(
            (Limit(name=name, floor_s=floor_s, share=floor_s / step_s, by=by) for name, floor_s, by in floors),
            key=lambda limit: -limit.floor_s,
        )
    )
    return StepLimits(step_s=step_s, limits=limits, why=_why(step_s, limits)) if limits else None


def _device(run: Run, checkup: Checkup) -> str | None:
    """What figures call the device of the run."""
    if run.device == "cpu":
        return "cpu"
    devices = checkup.torch.devices if checkup.torch else ()
    return next((f"cuda:{number}" for number, seen in enumerate(devices) if seen.name == run.device), None)


def _rate_floor(name: str, amount: float | None, figure: Figure | None) -> Iterator[tuple[str, float, str]]:
    if amount is not None and amount > 0 and figure is not None and figure.unit is not Unit.SECOND:
        told = f"{figure.name} {figure.variant}".strip()
        yield name, amount / figure.value.mid, f"{told} of {figure.device}, {figure.value.mid:.3g} {figure.unit.value}"


def _count_floor(count: float | None, figure: Figure | None) -> Iterator[tuple[str, float, str]]:
    if count is not None and count > 0 and figure is not None and figure.unit is Unit.SECOND:
        by = f"{count:.0f} operators of {duration(figure.value.mid)} on {figure.device}"
        yield "operators", count * figure.value.mid, by


def _why(step_s: float, limits: tuple[Limit, ...]) -> str:
    first = limits[0]
    if first.share > 1:
        return (
            f"The step takes {duration(step_s)}, less than the {duration(first.floor_s)} that {first.name} should take "
            f"at least ({first.by}): the totals count what caches save, or the figure was measured in a noisy moment."
        )
    means = {
        "compute": "the arithmetic of its products",
        "memory": "moving its bytes through memory",
        "operators": "calling its operators",
    }[first.name]
    return (
        f"The step takes {duration(step_s)}; {means} alone takes {duration(first.floor_s)} at the best rate of this "
        f"machine, so it runs at {percent(first.share)} of that limit."
    )

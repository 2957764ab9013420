"""Each NVIDIA GPU: shared, or held back."""

from collections.abc import Iterator
from dataclasses import replace

from hotlap.machine.facts import Facts
from hotlap.record import Complaint, Gpu, Weight
from hotlap.units import percent, size

# Memory that a driver and a desktop take by themselves; more of it belongs to somebody's work.
_OWN_BYTES = 1 << 30
# Of a moment in which we do nothing on it.
_BUSY = 0.10


def check(facts: Facts) -> Iterator[Complaint]:
    """All that the driver knows, as nvidia-smi counts them."""
    for number, gpu in enumerate(facts.driver.gpus if facts.driver else ()):
        for one in (*_used(gpu), *_held_back(gpu)):
            yield replace(one, about=f"GPU {number}")


def _used(gpu: Gpu) -> Iterator[Complaint]:
    if not gpu.processes and ((gpu.used_bytes or 0) <= _OWN_BYTES or (gpu.utilisation or 0.0) <= _BUSY):
        return
    busy = "" if gpu.utilisation is None else f" and works {percent(gpu.utilisation)} of the time"
    held = "some memory" if gpu.used_bytes is None else size(gpu.used_bytes)
    who = f" (processes {', '.join(map(str, gpu.processes))})" if gpu.processes else ""
    yield Complaint(
        code="gpu-shared",
        weight=Weight.COSTLY,
        what=f"{gpu.name} already holds {held}{busy}, for others{who}.",
        cost="Training gets what they leave: steps are slower and vary, batches that fit otherwise run out of memory, "
        "and every timing here is of both.",
        fix="Wait for them, end them if they are yours, or take another GPU with CUDA_VISIBLE_DEVICES.",
    )


def _held_back(gpu: Gpu) -> Iterator[Complaint]:
    if not gpu.slowdowns:
        return
    yield Complaint(
        code="slowed-down",
        weight=Weight.COSTLY,
        what=f"{gpu.name} lowers its clocks now ({', '.join(gpu.slowdowns)}).",
        cost="Clocks under load are below what the GPU could do, and timings drift with its temperature.",
        fix="If it is thermal, see to its cooling (dust, fans, airflow); else look at power cables, supply and the "
        "power cap of the chassis.",
    )

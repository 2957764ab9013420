"""Each NVIDIA GPU: shared, held back, badly plugged in, or damaged."""

from collections.abc import Iterator
from dataclasses import replace

from hotlap.machine.facts import Facts
from hotlap.record import LANE_BYTES_S, Complaint, Figure, Gpu, Weight
from hotlap.units import percent, size

# Memory that a driver and a desktop take by themselves; more of it belongs to somebody's work.
_OWN_BYTES = 1 << 30
# Of a moment in which we do nothing on it.
_BUSY = 0.10
# A power limit is set on purpose; a percent of difference is rounding.
_LESS_POWER = 0.97
# Pinned copies reach 80 to 90% of the nominal rate of a link; half of it points to another link than the slot's.
_LINK_SHARE = 0.6


def check(facts: Facts) -> Iterator[Complaint]:
    """GPUs that worked first, by torch's numbers; then all that the driver knows, as nvidia-smi counts them."""
    for device, gpu in facts.under_load.items():
        copies = [f for f in facts.figures if (f.device, f.name) == (device, "to-device")]
        for one in (*_held_back(gpu, "while it multiplied matrices"), *_link(gpu), *_copies(gpu, copies)):
            yield replace(one, about=device)
    for number, gpu in enumerate(facts.driver.gpus if facts.driver else ()):
        for one in (*_used(gpu), *_held_back(gpu, "now"), *_memory(gpu), *_limited(gpu)):
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


def _held_back(gpu: Gpu, when: str) -> Iterator[Complaint]:
    """By heat or by its supply; a GPU at its own power limit does all it may."""
    reasons = [name for name in gpu.slowdowns if name != "sw_power_cap"]
    if not reasons:
        return
    state = ", ".join(
        f"{value:.0f} {unit}"
        for value, unit in ((gpu.temperature_c, "C"), (gpu.power_w, "W"), (gpu.sm_mhz, "MHz"))
        if value is not None
    )
    yield Complaint(
        code="slowed-down",
        weight=Weight.COSTLY,
        what=f"{gpu.name} lowers its clocks {when} ({', '.join((*reasons, state)).removesuffix(', ')}).",
        cost="Clocks under load are below what the GPU could do, and timings drift with its temperature.",
        fix="If it is thermal, see to its cooling (dust, fans, airflow); else look at power cables, supply and the "
        "power cap of the chassis.",
    )


def _link(gpu: Gpu) -> Iterator[Complaint]:
    """Of a GPU that works: idle ones lower their generation."""
    if not (gpu.link_generation and gpu.link_width):
        return
    most = gpu.link_generation_most or gpu.link_generation, gpu.link_width_most or gpu.link_width
    have_s, most_s = LANE_BYTES_S.get(gpu.link_generation, 0) * gpu.link_width, LANE_BYTES_S.get(most[0], 0) * most[1]
    if have_s < most_s:
        yield Complaint(
            code="slow-link",
            weight=Weight.COSTLY,
            what=f"{gpu.name} speaks PCIe {gpu.link_generation} over {gpu.link_width} lanes under load, and could "
            f"speak PCIe {most[0]} over {most[1]}.",
            cost=f"Batches travel at {percent(have_s / most_s)} of the rate that the card could take.",
            fix="Seat the card anew, without a riser, in the slot nearest to the processor that has all lanes, and let "
            "the BIOS choose the generation.",
        )


def _copies(gpu: Gpu, copies: list[Figure]) -> Iterator[Complaint]:
    nominal = LANE_BYTES_S.get(gpu.link_generation or 0, 0.0) * (gpu.link_width or 0)
    best = max((figure.value.mid for figure in copies if figure.variant.startswith("pinned")), default=None)
    if best is not None and best < _LINK_SHARE * nominal:
        yield Complaint(
            code="slow-copies",
            weight=Weight.COSTLY,
            what=f"Pinned copies to {gpu.name} reach {best / 1e9:.1f} GB/s of the {nominal / 1e9:.1f} GB/s that PCIe "
            f"{gpu.link_generation} with {gpu.link_width} lanes carries.",
            cost="Each batch takes longer to travel than it has to.",
            fix="On a machine with several sockets, run on the memory node of the GPU (nvidia-smi topo -m, then "
            "numactl --cpunodebind=N --membind=N); in a virtual machine, ask for a passed-through card.",
        )


def _memory(gpu: Gpu) -> Iterator[Complaint]:
    if not gpu.uncorrected_errors:
        return
    yield Complaint(
        code="gpu-memory-errors",
        weight=Weight.COSTLY,
        what=f"{gpu.name} counts {gpu.uncorrected_errors} memory errors that could not be corrected since its "
        "driver was loaded.",
        cost="Processes that touch such a place are ended (Xid 48, 63, 64, 94 or 95 in dmesg); a result before that "
        "may be wrong.",
        fix="Reset the GPU or restart the machine, so that rows are replaced; if errors come back, replace the card.",
    )


def _limited(gpu: Gpu) -> Iterator[Complaint]:
    limit, default = gpu.power_limit_w, gpu.power_limit_default_w
    if limit is not None and default is not None and limit < _LESS_POWER * default:
        yield Complaint(
            code="power-limited",
            weight=Weight.COSTLY,
            what=f"{gpu.name} may draw {limit:.0f} W, its default is {default:.0f} W.",
            cost="Large products run at lower clocks; what waits for memory or for the host is hardly slower.",
            fix=f"If nobody wants it so: sudo nvidia-smi -pl {default:.0f} (with -i for one GPU).",
        )

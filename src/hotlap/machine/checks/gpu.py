"""Checks of each NVIDIA GPU: shared, held back, badly plugged in, or set up for something else."""

from collections.abc import Callable

from hotlap.machine.facts import Facts
from hotlap.machine.nvidia import Gpu
from hotlap.record import Complaint, UnderLoad, Weight
from hotlap.units import percent, size

# Memory that a driver and a desktop take by themselves; more of it belongs to somebody's work.
_OWN_BYTES = 1 << 30
# Of a moment in which we do nothing on it.
_BUSY = 0.10
# A power limit is set on purpose; a percent of difference is rounding.
_LESS_POWER = 0.97
# Pinned copies reach 80 to 90% of the nominal rate of a link; half of it points to another link than the slot's.
_LINK_SHARE = 0.6
# One direction of one lane after line coding, bytes/s. PCI Express base specification.
_LANE_BYTES_S = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}

_THERMAL = ("hw_thermal_slowdown", "sw_thermal_slowdown")
_POWER = ("hw_power_brake_slowdown", "hw_slowdown")


def shared(facts: Facts) -> Complaint | None:
    """Others compute on it."""
    gpus = _which(facts, lambda gpu: bool(gpu.processes) or _used_by_others(gpu))
    if not gpus:
        return None
    _, gpu = gpus[0]
    busy = "" if gpu.utilisation is None else f" and works {percent(gpu.utilisation)} of the time"
    held = "some memory" if gpu.used_bytes is None else size(gpu.used_bytes)
    who = f" (processes {', '.join(map(str, gpu.processes))})" if gpu.processes else ""
    return Complaint(
        code="gpu-shared",
        weight=Weight.COSTLY,
        what=f"{_names(gpus)} already holds {held}{busy}, for others{who}.",
        cost="Training gets what they leave: steps are slower and vary, batches that fit otherwise run out of memory, "
        "and every timing here is of both.",
        fix="Wait for them, end them if they are yours, or take another GPU with CUDA_VISIBLE_DEVICES.",
        about=_places(gpus),
    )


def power_limited(facts: Facts) -> Complaint | None:
    """Somebody lowered the power limit."""
    gpus = _which(
        facts,
        lambda gpu: (
            gpu.power_limit_w is not None
            and gpu.power_limit_default_w is not None
            and gpu.power_limit_w < _LESS_POWER * gpu.power_limit_default_w
        ),
    )
    if not gpus:
        return None
    _, gpu = gpus[0]
    return Complaint(
        code="power-limited",
        weight=Weight.COSTLY,
        what=f"{_names(gpus)} may draw {gpu.power_limit_w:.0f} W, its default is {gpu.power_limit_default_w:.0f} W.",
        cost="Large products run at lower clocks; what waits for memory or for the host is hardly slower.",
        fix=f"If nobody wants it so: sudo nvidia-smi -pl {gpu.power_limit_default_w:.0f} (with -i for one GPU).",
        about=_places(gpus),
    )


def too_hot(facts: Facts) -> Complaint | None:
    """Clocks fall because of heat."""
    return _slowed(
        facts,
        _THERMAL,
        code="too-hot",
        because="it is too hot",
        fix="See to its cooling: dust, fans, the airflow of the case or rack, the power limit (sudo nvidia-smi -pl).",
    )


def power_brake(facts: Facts) -> Complaint | None:
    """The power supply or the board calls for lower clocks."""
    return _slowed(
        facts,
        _POWER,
        code="power-brake",
        because="its power supply asks for it",
        fix="Look at the power cables and the supply; in a server, at the power cap of the chassis.",
    )


def _slowed(facts: Facts, reasons: tuple[str, ...], *, code: str, because: str, fix: str) -> Complaint | None:
    for load in facts.under_load:
        if set(reasons) & set(load.slowdowns):
            return Complaint(
                code=code,
                weight=Weight.COSTLY,
                what=f"{load.device} lowered its clocks while it multiplied matrices, because {because}{_state(load)}.",
                cost="Clocks under load are below what the GPU could do, and timings drift with its temperature.",
                fix=fix,
                about=load.device,
            )
    gpus = _which(facts, lambda gpu: bool(set(reasons) & set(gpu.slowdowns)))
    if not gpus:
        return None
    return Complaint(
        code=code,
        weight=Weight.COSTLY,
        what=f"{_names(gpus)} has lowered its clocks, because {because}.",
        cost="Clocks under load are below what the GPU could do, and timings drift with its temperature.",
        fix=fix,
        about=_places(gpus),
    )


def narrow_link(facts: Facts) -> Complaint | None:
    """Fewer lanes than card and slot could have. (The width does not change with load; the generation does.)"""
    gpus = _which(
        facts, lambda gpu: bool(gpu.link_width and gpu.link_width_most and gpu.link_width < gpu.link_width_most)
    )
    if not gpus:
        return None
    _, gpu = gpus[0]
    return Complaint(
        code="narrow-link",
        weight=Weight.COSTLY,
        what=f"{_names(gpus)} is connected by {gpu.link_width} PCIe lanes of {gpu.link_width_most}.",
        cost=f"Batches travel at {percent((gpu.link_width or 0) / (gpu.link_width_most or 1))} of the possible rate.",
        fix="Seat the card anew, without a riser, in a slot with all lanes (the board's manual says which share).",
        about=_places(gpus),
    )


def slow_link(facts: Facts) -> Complaint | None:
    """An older PCIe generation than the card's, by slot or by what it does under load."""
    for load in facts.under_load:
        gpu = _of(facts, load)
        most = gpu.link_generation_most if gpu else None
        if most and load.link_generation and load.link_generation < most:
            return _link(load.device, load.device, load.link_generation, most, "under load")
    gpus = _which(
        facts,
        lambda gpu: bool(
            gpu.link_generation_most
            and gpu.link_generation_card
            and gpu.link_generation_most < gpu.link_generation_card
        ),
    )
    if not gpus:
        return None
    _, gpu = gpus[0]
    return _link(_places(gpus), _names(gpus), gpu.link_generation_most or 0, gpu.link_generation_card or 0, "here")


def _link(about: str, name: str, have: int, could: int, when: str) -> Complaint:
    return Complaint(
        code="slow-link",
        weight=Weight.MINOR,
        what=f"{name} speaks PCIe {have} {when}, and could speak PCIe {could}.",
        cost=f"Batches travel at {percent(_LANE_BYTES_S.get(have, 0) / _LANE_BYTES_S.get(could, 1))} of the rate that "
        "the card could take.",
        fix="Use the slot nearest to the processor, and let the BIOS choose the generation (no riser, no fixed Gen3).",
        about=about,
    )


def slow_copies(facts: Facts) -> Complaint | None:
    """Pinned copies far below what the link should carry."""
    for load in facts.under_load:
        if not load.link_generation or not load.link_width:
            continue
        nominal = _LANE_BYTES_S.get(load.link_generation, 0.0) * load.link_width
        rates = [
            figure.value.mid
            for figure in facts.figures
            if figure.device == load.device and figure.name == "to-device" and figure.variant.startswith("pinned")
        ]
        if not rates or max(rates) >= _LINK_SHARE * nominal:
            continue
        return Complaint(
            code="slow-copies",
            weight=Weight.COSTLY,
            what=f"Pinned copies to {load.device} reach {max(rates) / 1e9:.1f} GB/s of the {nominal / 1e9:.1f} GB/s "
            f"that PCIe {load.link_generation} with {load.link_width} lanes carries.",
            cost="Each batch takes longer to travel than it has to.",
            fix="On a machine with several sockets, run on the memory node of the GPU (nvidia-smi topo -m, then "
            "numactl --cpunodebind=N --membind=N); in a virtual machine, ask for a passed-through card.",
            about=load.device,
        )
    return None


def memory_errors(facts: Facts) -> Complaint | None:
    """Memory errors that could not be corrected."""
    gpus = _which(facts, lambda gpu: bool(gpu.ecc_uncorrected))
    if not gpus:
        return None
    _, gpu = gpus[0]
    return Complaint(
        code="gpu-memory-errors",
        weight=Weight.COSTLY,
        what=f"{_names(gpus)} counts {gpu.ecc_uncorrected} memory errors that could not be corrected.",
        cost="Processes that touch the page are ended; a result before that may be wrong.",
        fix="Reset the GPU or restart the machine, so that rows are replaced; if errors come back, replace the card.",
        about=_places(gpus),
    )


def ecc_on_graphics_memory(facts: Facts) -> Complaint | None:
    """Error correction on a card that pays for it with bandwidth (graphics memory; HBM has it built in)."""
    gpus = _which(facts, lambda gpu: gpu.ecc is True and _has_graphics_memory(gpu.name))
    if not gpus:
        return None
    return Complaint(
        code="ecc-costs-bandwidth",
        weight=Weight.MINOR,
        what=f"Error correction is on for {_names(gpus)}, which has no memory of its own for the check bits.",
        cost="Some percent of bandwidth, and on most such cards a sixteenth of the memory.",
        fix="If you can live without it: sudo nvidia-smi -e 0, then start anew.",
        about=_places(gpus),
    )


def no_persistence(facts: Facts) -> Complaint | None:
    """The driver lets the GPU go after each process."""
    gpus = _which(facts, lambda gpu: gpu.persistence is False)
    if not gpus or facts.machine.system != "Linux":
        return None
    return Complaint(
        code="no-persistence",
        weight=Weight.MINOR,
        what=f"Persistence mode is off for {_names(gpus)}.",
        cost="Where no other program holds the GPU, each start of a training waits a second or more for the driver.",
        fix="sudo systemctl enable --now nvidia-persistenced (or sudo nvidia-smi -pm 1 until the next boot).",
        about=_places(gpus),
    )


def instances(facts: Facts) -> Complaint | None:
    """Cut into instances (MIG)."""
    gpus = _which(facts, lambda gpu: gpu.mig is True)
    if not gpus:
        return None
    return Complaint(
        code="gpu-instances",
        weight=Weight.MINOR,
        what=f"{_names(gpus)} is cut into instances (MIG).",
        cost="A process gets the multiprocessors and the memory of one instance, and one process cannot use several.",
        fix="If you need the whole GPU, ask whoever runs the machine: sudo nvidia-smi -mig 0.",
        about=_places(gpus),
    )


def _used_by_others(gpu: Gpu) -> bool:
    return (gpu.used_bytes or 0) > _OWN_BYTES and (gpu.utilisation or 0.0) > _BUSY


def _has_graphics_memory(name: str) -> bool:
    """By name, and only where it is certain: the cards of NVIDIA with HBM are not among these words."""
    words = name.upper().replace("-", " ").split()
    certain = {"RTX", "A2", "A10", "A10G", "A16", "A40", "L4", "L20", "L40", "L40S", "T4", "QUADRO"}
    return bool(certain & set(words))


def _which(facts: Facts, concerned: Callable[[Gpu], bool]) -> list[tuple[int, Gpu]]:
    gpus = facts.driver.gpus if facts.driver else ()
    return [(number, gpu) for number, gpu in enumerate(gpus) if concerned(gpu)]


def _of(facts: Facts, load: UnderLoad) -> Gpu | None:
    gpus = facts.driver.gpus if facts.driver else ()
    return next((gpu for gpu in gpus if gpu.uuid is not None and gpu.uuid == load.uuid), None)


def _names(gpus: list[tuple[int, Gpu]]) -> str:
    number, gpu = gpus[0]
    others = f" (and {len(gpus) - 1} more)" if len(gpus) > 1 else ""
    return f"GPU {number}, {gpu.name},{others}" if others else f"GPU {number} ({gpu.name})"


def _places(gpus: list[tuple[int, Gpu]]) -> str:
    """Numbers as nvidia-smi counts, which is not always the order of torch."""
    return ", ".join(f"GPU {number}" for number, _ in gpus)


def _state(load: UnderLoad) -> str:
    parts = [
        *([f"{load.temperature_c:.0f} C"] if load.temperature_c is not None else []),
        *([f"{load.power_w:.0f} W"] if load.power_w is not None else []),
        *([f"{load.sm_mhz:.0f} MHz"] if load.sm_mhz is not None else []),
    ]
    return f" ({', '.join(parts)})" if parts else ""


ALL = (
    shared,
    too_hot,
    power_brake,
    power_limited,
    narrow_link,
    slow_copies,
    memory_errors,
    slow_link,
    ecc_on_graphics_memory,
    no_persistence,
    instances,
)

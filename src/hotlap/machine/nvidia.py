"""`nvidia-smi -q -x` -> what NVIDIA's driver says of itself and of each GPU.

The program comes with every driver, so nothing has to be installed for it, and its XML can be kept and replayed. Tags
that a driver does not know are missing, and those that a card does not know say "N/A": None here.
"""

import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from xml.etree import ElementTree

# Without persistence mode the driver starts each GPU for the question, which takes seconds.
_TIMEOUT_S = 20.0
_MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One NVIDIA GPU as its driver sees it. None: unknown."""

    name: str
    uuid: str | None = None
    persistence: bool | None = None
    mig: bool | None = None
    """Cut into instances; figures are of one of them."""
    ecc: bool | None = None
    ecc_uncorrected: int | None = None
    """Memory errors since the driver was loaded that could not be corrected."""
    link_generation: int | None = None
    """PCIe generation now; falls when the GPU has nothing to do."""
    link_generation_most: int | None = None
    """What card and slot can do together."""
    link_generation_card: int | None = None
    """What the card can do."""
    link_width: int | None = None
    link_width_most: int | None = None
    slowdowns: tuple[str, ...] = ()
    """Active reasons for lower clocks, idleness and settings left out: "sw_power_cap", "hw_thermal_slowdown", ..."""
    sm_mhz: float | None = None
    sm_mhz_most: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    power_limit_default_w: float | None = None
    temperature_c: float | None = None
    memory_bytes: int | None = None
    used_bytes: int | None = None
    utilisation: float | None = None
    """Part of the last moment in which a kernel ran, in [0, 1]."""
    processes: tuple[int, ...] = ()
    """Ids of processes that compute on it. A container sees none of those outside of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """NVIDIA's driver."""

    version: str
    cuda: str | None
    """Newest CUDA that it knows itself, "12.4"."""
    gpus: tuple[Gpu, ...] = ()


def ask() -> Driver | None:
    """The driver of this machine; None where it has none, or it does not answer."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, "-q", "-x"], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False, errors="replace"
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return parse(done.stdout) if done.returncode == 0 else None


def parse(xml: str) -> Driver | None:
    """What `nvidia-smi -q -x` printed; None if it is something else."""
    try:
        log = ElementTree.fromstring(xml)
    except ElementTree.ParseError:
        return None
    version = _text(log, "driver_version")
    if log.tag != "nvidia_smi_log" or version is None:
        return None
    return Driver(version=version, cuda=_text(log, "cuda_version"), gpus=tuple(map(_gpu, log.iter("gpu"))))


def _gpu(node: ElementTree.Element) -> Gpu:
    link = "pci/pci_gpu_link_info"
    return Gpu(
        name=_text(node, "product_name") or "NVIDIA GPU",
        uuid=_text(node, "uuid"),
        persistence=_claim(node, "persistence_mode"),
        mig=_claim(node, "mig_mode/current_mig"),
        ecc=_claim(node, "ecc_mode/current_ecc"),
        ecc_uncorrected=_errors(node),
        link_generation=_whole(node, f"{link}/pcie_gen/current_link_gen"),
        link_generation_most=_whole(node, f"{link}/pcie_gen/max_link_gen"),
        link_generation_card=_whole(node, f"{link}/pcie_gen/max_device_link_gen"),
        link_width=_whole(node, f"{link}/link_widths/current_link_width"),
        link_width_most=_whole(node, f"{link}/link_widths/max_link_width"),
        slowdowns=tuple(_slowdowns(node)),
        sm_mhz=_number(node, "clocks/sm_clock"),
        sm_mhz_most=_number(node, "max_clocks/sm_clock"),
        # Both names of each: drivers from 530 on, and older ones.
        power_w=_number(
            node,
            "gpu_power_readings/instant_power_draw",
            "gpu_power_readings/power_draw",
            "gpu_power_readings/average_power_draw",
            "power_readings/power_draw",
        ),
        power_limit_w=_number(node, "gpu_power_readings/current_power_limit", "power_readings/power_limit"),
        power_limit_default_w=_number(
            node, "gpu_power_readings/default_power_limit", "power_readings/default_power_limit"
        ),
        temperature_c=_number(node, "temperature/gpu_temp"),
        memory_bytes=_bytes(node, "fb_memory_usage/total"),
        used_bytes=_bytes(node, "fb_memory_usage/used"),
        utilisation=None if (busy := _number(node, "utilization/gpu_util")) is None else busy / 100,
        processes=tuple(_processes(node)),
    )


def _slowdowns(node: ElementTree.Element) -> Iterable[str]:
    # "event" since driver 535, "throttle" before. Idleness and clocks that somebody set are no limits.
    for name in ("event", "throttle"):
        prefix = f"clocks_{name}_reason_"
        for reason in node.findall(f"clocks_{name}_reasons/*"):
            word = reason.tag.removeprefix(prefix)
            if reason.text == "Active" and word not in ("gpu_idle", "applications_clocks_setting", "sync_boost"):
                yield word


def _processes(node: ElementTree.Element) -> Iterable[int]:
    for process in node.findall("processes/process_info"):
        pid = _whole(process, "pid")
        # "G" draws the desktop; "C" and "C+G" compute.
        if pid is not None and "C" in (_text(process, "type") or ""):
            yield pid


def _errors(node: ElementTree.Element) -> int | None:
    found = [
        int(count.text)
        for count in node.findall("ecc_errors/volatile//*")
        if "uncorrectable" in count.tag and (count.text or "").strip().isdigit() and count.text is not None
    ]
    return sum(found) if found else None


def _text(node: ElementTree.Element, path: str) -> str | None:
    found = (node.findtext(path) or "").strip()
    return found if found and found not in ("N/A", "[N/A]", "Unknown Error") else None


def _claim(node: ElementTree.Element, path: str) -> bool | None:
    return {"Enabled": True, "Disabled": False}.get(_text(node, path) or "")


def _number(node: ElementTree.Element, *paths: str) -> float | None:
    for path in paths:
        if found := re.match(r"\d+(?:\.\d+)?", _text(node, path) or ""):
            return float(found[0])
    return None


def _whole(node: ElementTree.Element, path: str) -> int | None:
    found = _number(node, path)
    return None if found is None else int(found)


def _bytes(node: ElementTree.Element, path: str) -> int | None:
    found = _number(node, path)
    return None if found is None else int(found * _MIB)

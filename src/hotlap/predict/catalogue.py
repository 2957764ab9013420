"""The device catalogue: names of GPUs -> what they can do at best. Unknown names are errors, never a default.

Rates are derived from units, clocks and operations a clock (see `facts/`), so that one wrong figure cannot hide; the
tests compare them with the figures that vendors quote.
"""

import csv
import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import resources

from hotlap.errors import UserError

GIGA = 1e9
USUAL_HZ = 1.5e9
"""Clock of a multiprocessor, where it is not known."""
LANE_BYTES_S = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
"""Generation of PCIe -> bytes a second in one direction of one lane, after line coding (8b/10b up to generation 2, then
128b/130b). PCI Express base specification."""
# Words in names that say who made a device or what it is for, but never tell two devices apart.
NOISE_WORDS = frozenset([
    "nvidia", "geforce", "tesla", "quadro", "amd", "radeon", "instinct", "gpu", "per", "die", "generation",
])  # fmt: skip
FORM_WORDS = frozenset({"sxm", "pcie", "nvl"})


class Link(StrEnum):
    """How several devices of one machine reach each other."""

    NVSWITCH = "nvswitch"
    """Every pair at full rate (A100 SXM and later)."""
    NVLINK_MESH = "nvlink-mesh"
    """Direct links between some pairs (P100 and V100 SXM)."""
    NVLINK_BRIDGE = "nvlink-bridge"
    """A bridge joins two cards; it has to be bought."""
    XGMI = "xgmi"
    PCIE = "pcie"
    """Peer access over PCIe."""
    PCIE_NO_P2P = "pcie-no-p2p"
    """Through the memory of the host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One GPU, or the CPU here. Operations and bytes a second; bytes; watts. 0 where the hardware has no such unit."""

    name: str
    family: str
    """Architecture: "ampere" is two (ga100, ga102), since their rates differ."""
    units: int
    """Streaming multiprocessors, compute units, or cores."""
    fp32: float
    fp64: float
    """On the matrix units, where they have it."""
    fp16: float
    """Half precision without matrix units, or FP32's rate where storage alone is half."""
    tensor: float = 0.0
    """Dense matrix rate of half-precision inputs, accumulated in FP32."""
    tf32: float = 0.0
    bf16: bool = False
    bandwidth: float
    memory: float
    clock_hz: float = USUAL_HZ
    """That the rates are derived from."""
    fp32_share: float = 0.6
    """Part of the FP32 peak that large products reach: less where lanes are shared with integers (GA10x and later) or
    have few registers (Kepler, GP100)."""
    accumulated: float = 1.0
    """Part of its chip's matrix rate that the board runs with FP32 accumulation (GeForce: half)."""
    matrix_share: float = 1.0
    """What libraries reach of the matrix peak beside those of NVIDIA at the same ratio of peak to bandwidth."""
    pcie_bytes_s: float = 0.0
    """One direction of the slot at its nominal rate."""
    link: Link | None = None
    """The best link that this model can have to its neighbours, besides PCIe."""
    link_bytes_s: float = 0.0
    """Both directions together, as vendors quote it."""
    peer_access: bool = True
    """Devices reach each other over PCIe without the host's memory."""
    power_w: float

    @property
    def is_cpu(self) -> bool:
        """A processor, from which one forecasts, and to which one does not."""
        return self.family == "cpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A name, resolved."""

    device: Device
    assumption: str | None = None
    """If the name fits several variants: which was taken, and what to say for another."""


def facts(name: str) -> list[dict[str, str]]:
    """Rows of a CSV that ships with the package; for each GPU and family it names the sources of its figures."""
    text = resources.files("hotlap.predict").joinpath("facts", name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


@cache
def _families() -> dict[str, dict[str, str]]:
    return {row["family"]: row for row in facts("families.csv")}


def _gpu(row: Mapping[str, str]) -> Device:
    """A row of gpus.csv -> a device; rates are units x operations a clock x clock."""
    family = dict(_families()[row["family"]])
    if row["fp64_fma"]:  # less than its family has
        family["fp64_fma"] = row["fp64_fma"]
    units = int(row["sms"])
    clock = float(row["boost_mhz"]) * 1e6
    matrix_clock = float(row["tensor_mhz"] or row["boost_mhz"]) * 1e6
    share = 0.5 if row["fp32_accumulate"] == "half" else 1.0

    def rate(column: str, hertz: float) -> float:
        return 2.0 * units * float(family[column]) * hertz

    fp32 = rate("fp32_fma", clock)
    return Device(
        name=row["name"].replace(" (per die)", ""),
        family=row["family"],
        units=units,
        fp32=fp32,
        fp64=rate("fp64_fma", clock),
        # Without packed half precision, libraries keep halves in memory and compute in FP32.
        fp16=max(rate("fp16_fma", clock), fp32),
        tensor=share * rate("tensor_fma", matrix_clock),
        tf32=share * rate("tf32_fma", matrix_clock),
        bf16=family["bf16"] == "yes",
        bandwidth=float(row["bus_bits"]) / 8 * float(row["pin_gbps"]) * GIGA,
        memory=float(row["memory_gb"]) * 2**30,
        clock_hz=clock,
        fp32_share=float(family["fp32_share"]),
        matrix_share=float(family["matrix_share"]),
        accumulated=share,
        pcie_bytes_s=LANE_BYTES_S[int(row["pcie_gen"])] * int(row["pcie_lanes"]),
        link=Link(row["link"]) if row["link"] else None,
        link_bytes_s=float(row["link_gbs"] or 0) * GIGA,
        peer_access=row["peer_access"] == "yes",
        power_w=float(row["power_w"]),
    )


def cpu(name: str, *, cores: int) -> Device:
    """The processor of this machine, by typical figures: AVX2 at 2.5 GHz, and memory for 4 GB/s a core."""
    fp32 = 32 * 2.5e9 * cores
    return Device(
        name=name,
        family="cpu",
        units=cores,
        fp32=fp32,
        fp64=fp32 / 2,
        fp16=fp32,
        bandwidth=max(20e9, 4e9 * cores),
        memory=float("inf"),
        power_w=10.0 * cores,
    )


@cache
def _shipped() -> tuple[tuple[Device, tuple[str, ...]], ...]:
    """All devices of the package with all their names; preferred variants first."""
    found = ((_gpu(row), row["aliases"]) for row in facts("gpus.csv"))
    return tuple((device, _names(device.name, aliases)) for device, aliases in found)


def _names(name: str, aliases: str) -> tuple[str, ...]:
    """Those in the row, and the bare number of a GeForce: "4070 Ti" for "RTX 4070 Ti"."""
    bare = re.fullmatch(r"[RG]TX (\d{3,4}( Ti)?( Super)?( D)?)( \d+GB)?", name)
    return (name, *filter(None, aliases.split(";")), *([bare[1]] if bare else []))


def devices() -> tuple[Device, ...]:
    """Every device of the catalogue."""
    return tuple(device for device, _ in _shipped())


@cache
def _words(name: str) -> tuple[tuple[str, ...], float | None]:
    """A name as it may be written -> the words that tell devices apart, and the gigabytes of memory if named."""
    text = re.sub(r"[^a-z0-9.+]+", " ", name.lower())
    text = re.sub(r"\b(rtx|gtx|titan)(?=\d|x|v|rtx)", r"\1 ", text)
    text = re.sub(r"(?<=\d)(ti|super)\b", r" \1", text)
    text = re.sub(r"\bgen ?\d\b", " ", re.sub(r"\bsxm\d\b", "sxm", text))
    # The driver calls the SXM form of H100 "NVIDIA H100 80GB HBM3".
    text = re.sub(r"\bhbm3\b", "sxm", re.sub(r"(\d+) ?gb\b", r" \1gb ", text))
    memory = re.search(r"\b(\d+)gb\b", text)
    words = tuple(word for word in re.sub(r"\b\d+gb\b", " ", text).split() if word not in NOISE_WORDS)
    return words, float(memory[1]) if memory else None


def _candidates(name: str) -> list[Device]:
    """Equal words; a form factor (SXM, PCIe) may be left out, never contradicted."""
    (words, memory_gb), pool = _words(name), _shipped()
    exact = [device for device, names in pool if name.lower().strip() in (one.lower() for one in names)]
    return exact or [
        device
        for device, names in pool
        if memory_gb in (None, device.memory / 2**30, *(_words(one)[1] for one in names))
        and any(set(words) <= set(_words(one)[0]) <= {*words, *FORM_WORDS} for one in names)
    ]


def resolve(name: str | Device) -> Match:
    """The device that `name` means: "RTX 4090", "4090", "NVIDIA GeForce RTX 4090".

    Arguments:
        name: as people or the driver write it. Case, maker and punctuation do not matter; words do. A device is itself.

    Raises:
        UserError: no device has this name; the nearest names are in the message.
    """
    if isinstance(name, Device):
        return Match(device=name)
    found = _candidates(name)
    if not found:
        raise UserError(_unknown(name))
    first, *others = found
    if not others:
        return Match(device=first)
    names = ", ".join(device.name for device in others)
    return Match(device=first, assumption=f'"{name}" was taken for {first.name}; write {names} for that one')


def _unknown(name: str) -> str:
    names = {_spelled(known): device.name for device, names in reversed(_shipped()) for known in reversed(names)}
    near = difflib.get_close_matches(_spelled(name), names, n=6, cutoff=0.5)
    nearest = list(dict.fromkeys(names[key] for key in near))[:4]
    hint = f"Nearest: {', '.join(nearest)}." if nearest else "`hotlap predict --list` shows all names."
    return f'No device is called "{name}". {hint}'


def _spelled(name: str) -> str:
    """Without what tells variants apart: "H1000" is near to "h100", not to "h100 sxm"."""
    return " ".join(word for word in _words(name)[0] if word not in FORM_WORDS)

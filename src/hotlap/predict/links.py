"""Data-parallel training on several GPUs of one machine: one GPU's step -> the step of all, by how they are connected.

Gradients are added up in buckets while the backward pass still runs (DistributedDataParallel): one leaves when it is
complete and the one before it is through. What ends behind the backward pass is waited for, and all wait for the
slowest GPU.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, log2

from hotlap.errors import UserError
from hotlap.predict.catalogue import Device, Link
from hotlap.predict.timing import Off

# Part of the nominal rate of one direction that a ring reaches, by number of GPUs (for others, that of the next
# larger), and the spread (standard deviation of the logarithm) of that between machines.
REACHED: Mapping[Link, tuple[Mapping[int, float], float]] = {
    # 231 GB/s of 300 on 8 x A100 (Azure ND A100 v4, nccl-tests).
    Link.NVSWITCH: ({8: 0.77}, 0.12),
    # DGX-1: rings use all six links of a V100 only when all eight take part (NVIDIA DGX-1 white paper).
    Link.NVLINK_MESH: ({2: 0.30, 4: 0.50, 8: 0.82}, 0.20),
    Link.NVLINK_BRIDGE: ({2: 0.80}, 0.15),
    Link.XGMI: ({8: 0.60}, 0.30),
    # GTX 1080 Ti on PCIe 3: 12.2, 11.0 and 8.7 GB/s of 15.8 for 2, 4 and 8 (DeepBench, NCCL 2.0).
    Link.PCIE: ({2: 0.77, 4: 0.70, 8: 0.55}, 0.25),
}
# Without peer access, through the host's memory, bytes a second whatever the slot: 6 to 7 GB/s between two RTX 3090
# (Lambda's efficiencies; the spread holds nine of eleven). Copies alone are faster: 12.9 GB/s in one direction between
# two RTX 4090.
STAGED_BYTES_S, STAGED_SIGMA = 6.5e9, 0.3
# Latency of small all-reduces: 44 us on 8 x A100 (Azure), 42 us on 8 x RTX 4090, 62 us on 2 x GTX 1080 Ti at 400 kB.
BASE_LATENCY_S = 12e-6
HOP_LATENCY_S = 10e-6
# Half of the full rate is reached at this message size, for a bus of 231 GB/s; smaller in proportion on slower ones.
HALF_RATE_BYTES = 14.5e6
HALF_RATE_BUS = 231e9
RAMP = 0.6
FIRST_BUCKET_BYTES, BUCKET_BYTES = 2**20, 25 * 2**20
"""torch.nn.parallel.DistributedDataParallel's defaults."""
BACKWARD_SHARE = 0.62
"""Part of a step that the backward pass takes: it does twice the work of the forward pass, less the optimizer."""
# Part of an exchange through the host's memory that hides behind the backward pass: kernels that copy hold the device
# up (two RTX 3090, Lambda's efficiencies, on which this was chosen).
STAGED_HIDDEN = 0.2
# Relative loss for each doubling of the GPUs: waiting for the slowest, host work of the collectives, shared input, and
# multiprocessors and memory that an exchange takes from the backward pass beside it.
JITTER = 0.022


@dataclass(frozen=True, slots=True, kw_only=True)
class Fabric:
    """What an all-reduce between several devices runs over."""

    link: Link
    bus_bytes_s: float
    """"Bus bandwidth" as NCCL's tests define it: 2(n-1)/n of the bytes over the time, for large messages."""
    sigma: float
    """Spread of `bus_bytes_s` (standard deviation of the logarithm) between machines."""
    assumption: str | None
    """What is taken for granted, where nobody said how they are connected."""


def fabric(device: Device, count: int, interconnect: str | None = None) -> Fabric:
    """How `count` of `device` are connected: by "nvlink", "pcie" or "pcie-no-p2p"; None: as such machines usually are.

    Raises:
        UserError: the device has no such link, or its rate is not known.
    """
    link, assumption = _usual(device)
    if interconnect is not None:
        named = {"nvlink": device.link, "pcie": Link.PCIE, "pcie-no-p2p": Link.PCIE_NO_P2P}.get(interconnect)
        if named is None:
            raise UserError(f'{device.name} has no "{interconnect}". Known are nvlink, pcie and pcie-no-p2p.')
        link, assumption = named, None
    if link is Link.PCIE_NO_P2P:
        return Fabric(link=link, bus_bytes_s=STAGED_BYTES_S, sigma=STAGED_SIGMA, assumption=assumption)
    nominal = device.pcie_bytes_s if link is Link.PCIE else device.link_bytes_s / 2
    if nominal <= 0:
        raise UserError(f"{device.name} has no known {link} rate. Say how they are connected, with --interconnect.")
    shares, sigma = REACHED[link]
    share = shares[min((known for known in shares if known >= count), default=max(shares))]
    return Fabric(link=link, bus_bytes_s=nominal * share, sigma=sigma, assumption=assumption)


def _usual(device: Device) -> tuple[Link, str | None]:
    staged = Link.PCIE if device.peer_access else Link.PCIE_NO_P2P
    if device.link is Link.NVLINK_BRIDGE:
        # Bridges join pairs and are sold apart; most machines with such cards have none.
        return staged, "no NVLink bridge; --interconnect nvlink for cards that have one"
    if device.link is not None:
        return device.link, None
    if device.peer_access:
        return staged, "cards reach each other over PCIe"
    note = "gradients travel through the host's memory (no peer access between these cards); boards that split their "
    return staged, note + "lanes are slower still"


def all_reduce_s(num_bytes: float, count: int, over: Fabric, *, slower: float = 1.0) -> float:
    """Seconds of one all-reduce of `num_bytes` on each of `count` GPUs, on links so many times slower than usual."""
    if count < 2 or num_bytes <= 0:
        return 0.0
    half = HALF_RATE_BYTES * over.bus_bytes_s / HALF_RATE_BUS
    reached: float = num_bytes**RAMP / (num_bytes**RAMP + half**RAMP)
    latency_s = BASE_LATENCY_S + HOP_LATENCY_S * log2(count)
    return latency_s + slower * 2 * (count - 1) / count * num_bytes / (over.bus_bytes_s * reached)


def together(step_s: float, *, gradient_bytes: float, count: int, over: Fabric, off: Off) -> float:
    """Step time of `count` GPUs, each with the batch that one has (weak scaling).

    Gradients come evenly over the backward pass.
    """
    staged, slower = over.link is Link.PCIE_NO_P2P, exp(-over.sigma * off.bus)
    backward_s = 0.0 if staged else BACKWARD_SHARE * step_s
    first = min(FIRST_BUCKET_BYTES, gradient_bytes)
    whole, rest = divmod(gradient_bytes - first, BUCKET_BYTES)
    first_s, bucket_s, rest_s = (
        all_reduce_s(num_bytes, count, over, slower=slower) for num_bytes in (first, BUCKET_BYTES, rest)
    )
    each_s = backward_s * BUCKET_BYTES / max(gradient_bytes, BUCKET_BYTES)  # from one whole bucket to the next
    complete_s = backward_s * first / max(gradient_bytes, 1.0)
    through_s = complete_s + first_s
    if whole:  # they come evenly: if one finds the link taken, so do all that follow
        through_s = max(through_s, complete_s + each_s) + whole * bucket_s
        through_s = max(through_s, complete_s + whole * each_s + bucket_s)
    if rest:
        through_s = max(through_s, backward_s) + rest_s
    exposed_s = max(0.0, through_s - backward_s) * (1 - STAGED_HIDDEN if staged else 1)
    return (step_s + exposed_s) * (1 + JITTER * log2(count))

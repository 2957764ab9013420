"""Data-parallel training on several GPUs of one machine: one GPU's step -> the step of all, by how they are connected.

Gradients are added up in buckets while the backward pass still runs (DistributedDataParallel). What does not fit
behind it is waited for; what does fit still takes memory bandwidth and multiprocessors from it; and all wait for the
slowest GPU.

Shape letter: D draws.
"""

from dataclasses import dataclass
from math import ceil, log2

import numpy as np

from hotlap.errors import UserError
from hotlap.predict.beliefs import Array, Draws
from hotlap.predict.catalogue import Device, Link


@dataclass(frozen=True, slots=True, kw_only=True)
class Fabric:
    """What an all-reduce between `count` GPUs runs over."""

    link: Link
    bus_bytes_s: float
    """"Bus bandwidth" as NCCL's tests define it: 2(n-1)/n of the bytes over the time, for large messages."""
    latency_s: float
    """Of one all-reduce of a few bytes."""
    sigma: float
    """Spread of `bus_bytes_s` (standard deviation of the logarithm) between machines."""
    assumptions: tuple[str, ...] = ()


# Part of the nominal rate of one direction that a ring reaches, by number of GPUs.
#   PCIe with peer access: 8 x GTX 1080 Ti on PCIe 3: 12.2, 11.0 and 8.7 GB/s of 15.8 for 2, 4, 8 (DeepBench, NCCL 2.0).
#   Without, through the host's memory, bytes a second whatever the slot: 6 to 7 GB/s between two RTX 3090 (Lambda's
#   efficiencies). Copies alone are faster: 12.9 GB/s in one direction between two RTX 4090.
PCIE_SHARE = {2: 0.77, 4: 0.70, 8: 0.55}
STAGED_BYTES_S = 6.5e9
#   NVSwitch: 231 GB/s of 300 on 8 x A100 (Azure ND A100 v4, nccl-tests).
SWITCHED_SHARE = 0.77
#   NVLink mesh of DGX-1: rings use all six links of a V100 only when all eight take part (NVIDIA DGX-1 white paper).
MESH_SHARE = {2: 0.30, 4: 0.50, 8: 0.82}
BRIDGE_SHARE = 0.80
XGMI_SHARE = 0.60
# Latency of small all-reduces: 44 us on 8 x A100 (Azure), 42 us on 8 x RTX 4090, 62 us on 2 x GTX 1080 Ti at 400 kB.
BASE_LATENCY_S = 12e-6
HOP_LATENCY_S = 10e-6
# Half of the full rate is reached at this message size, for a bus of 231 GB/s; smaller in proportion on slower ones.
HALF_RATE_BYTES = 14.5e6
HALF_RATE_BUS = 231e9
RAMP = 0.6
BUCKET_BYTES = 25 * 2**20
"""torch.nn.parallel.DistributedDataParallel's default."""
BACKWARD_SHARE = 0.62
"""Part of a step that the backward pass takes: it does twice the work of the forward pass, less the optimizer."""
# Part of the communication that hides behind the backward pass, at best estimate and its spread. Complete hiding is
# what DDP aims at; published 1-to-8 efficiencies on V100 (DeepLearningExamples) lie well below it.
HIDDEN_LOW = 0.30
HIDDEN_HIGH = 0.90
# Through the host's memory: kernels that copy hold the device up, and hide almost nothing (two RTX 3090, Lambda).
STAGED_HIDDEN_LOW = 0.0
STAGED_HIDDEN_HIGH = 0.25
# Relative loss for each doubling of the GPUs: waiting for the slowest, host work of the collectives, shared input.
JITTER = 0.016
JITTER_SIGMA = 0.7


def fabric(device: Device, count: int, *, interconnect: str | None = None) -> Fabric:
    """How `count` of `device` are connected.

    Arguments:
        interconnect: "nvlink", "pcie" or "pcie-no-p2p"; None: what such machines usually have.

    Raises:
        UserError: the device has no such link.
    """
    link, assumptions = _link(device, interconnect)
    one_way = device.link_bytes_s / 2
    latency_s = BASE_LATENCY_S + HOP_LATENCY_S * log2(max(count, 2))
    rate, sigma = {
        Link.NVSWITCH: (one_way * SWITCHED_SHARE, 0.12),
        Link.NVLINK_MESH: (one_way * _at(MESH_SHARE, count), 0.20),
        Link.NVLINK_BRIDGE: (one_way * BRIDGE_SHARE, 0.15),
        Link.XGMI: (one_way * XGMI_SHARE, 0.30),
        Link.PCIE: (device.pcie_bytes_s * _at(PCIE_SHARE, count), 0.25),
        Link.PCIE_NO_P2P: (min(STAGED_BYTES_S, 0.8 * device.pcie_bytes_s), 0.25),
    }[link]
    if rate <= 0:
        raise UserError(f"{device.name} has no known {link} rate. Give --interconnect, or the device in a TOML file.")
    return Fabric(link=link, bus_bytes_s=rate, latency_s=latency_s, sigma=sigma, assumptions=assumptions)


def _link(device: Device, interconnect: str | None) -> tuple[Link, tuple[str, ...]]:
    """Which link is taken, and what that takes for granted."""
    if interconnect is not None:
        name = interconnect.lower().strip()
        if name in (Link.PCIE, Link.PCIE_NO_P2P):
            return Link(name), ()
        if name not in ("nvlink", *Link):
            raise UserError(f'No interconnect is called "{interconnect}". Known: nvlink, pcie, pcie-no-p2p.')
        if device.link is None:
            raise UserError(f"{device.name} has no NVLink. Use --interconnect pcie or pcie-no-p2p.")
        return device.link, ()
    staged = Link.PCIE if device.peer_access else Link.PCIE_NO_P2P
    if device.link is Link.NVLINK_BRIDGE:
        # Bridges join pairs and are sold apart; most machines with such cards have none.
        return staged, ("no NVLink bridge; --interconnect nvlink for cards that have one",)
    if device.link is not None:
        return device.link, ()
    if staged is Link.PCIE:
        return staged, ("cards reach each other over PCIe",)
    note = "gradients travel through the host's memory (no peer access between these cards); boards that split their "
    return staged, (note + "lanes are slower still",)


def _at(shares: dict[int, float], count: int) -> float:
    """The entry for `count`, or for the next larger one that is known."""
    return shares[min((known for known in shares if known >= count), default=max(shares))]


def all_reduce_s(num_bytes: float, count: int, over: Fabric) -> float:
    """Seconds of one all-reduce of `num_bytes` on each of `count` GPUs."""
    if count < 2 or num_bytes <= 0:
        return 0.0
    half = HALF_RATE_BYTES * over.bus_bytes_s / HALF_RATE_BUS
    reached: float = num_bytes**RAMP / (num_bytes**RAMP + half**RAMP)
    return over.latency_s + 2 * (count - 1) / count * num_bytes / (over.bus_bytes_s * reached)


def communication_s(gradient_bytes: float, count: int, over: Fabric) -> float:
    """Seconds that all buckets take together if nothing hides them."""
    whole, rest = divmod(gradient_bytes, BUCKET_BYTES)
    return whole * all_reduce_s(BUCKET_BYTES, count, over) + all_reduce_s(rest, count, over)


def together(step_s: Array, *, gradient_bytes: float, count: int, over: Fabric, draws: Draws) -> Array:
    """(D,) step time of `count` GPUs, each with the batch that one has (weak scaling)."""
    rates = np.exp(over.sigma * draws.bus)
    # Latency does not scale with the rate: two points of the line are enough.
    at_one = communication_s(gradient_bytes, count, over)
    num_buckets = ceil(gradient_bytes / BUCKET_BYTES)
    fixed_s = over.latency_s * num_buckets
    total_s = fixed_s + (at_one - fixed_s) / rates
    last_s = total_s / max(num_buckets, 1)
    uniform = (1 + np.tanh(draws.hidden * 0.8)) / 2
    staged = over.link is Link.PCIE_NO_P2P
    least, most = (STAGED_HIDDEN_LOW, STAGED_HIDDEN_HIGH) if staged else (HIDDEN_LOW, HIDDEN_HIGH)
    hidden = least + (most - least) * uniform
    behind_s = np.minimum(hidden * total_s, 0.9 * BACKWARD_SHARE * step_s)
    exposed_s = np.maximum(total_s - behind_s, last_s)
    jitter = JITTER * log2(count) * np.exp(JITTER_SIGMA * draws.jitter)
    return np.asarray((step_s + exposed_s) * (1 + jitter))

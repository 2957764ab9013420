"""Data-parallel training on several GPUs of one machine: one GPU's step -> the step of all, for each draw.

Gradients are added up in buckets while the backward pass still runs (DistributedDataParallel). What does not fit
behind it is waited for; what does fit still takes memory bandwidth and multiprocessors from it; and all wait for the
slowest GPU.

Shape letter: D draws.
"""

import math

import numpy as np

from hotlap.predict.beliefs import Array, Draws
from hotlap.predict.catalogue import Link
from hotlap.predict.links import Fabric, all_reduce_s

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


def communication_s(gradient_bytes: float, count: int, over: Fabric) -> float:
    """Seconds that all buckets take together if nothing hides them."""
    whole, rest = divmod(gradient_bytes, BUCKET_BYTES)
    return whole * all_reduce_s(BUCKET_BYTES, count, over) + all_reduce_s(rest, count, over)


def together(step_s: Array, *, gradient_bytes: float, count: int, over: Fabric, draws: Draws) -> Array:
    """(D,) step time of `count` GPUs, each with the batch that one has (weak scaling)."""
    rates = np.exp(over.sigma * draws.bus)
    # Latency does not scale with the rate: two points of the line are enough.
    at_one = communication_s(gradient_bytes, count, over)
    num_buckets = math.ceil(gradient_bytes / BUCKET_BYTES)
    fixed_s = over.latency_s * num_buckets
    total_s = fixed_s + (at_one - fixed_s) / rates
    last_s = total_s / max(num_buckets, 1)
    uniform = (1 + np.tanh(draws.hidden * 0.8)) / 2
    staged = over.link is Link.PCIE_NO_P2P
    least, most = (STAGED_HIDDEN_LOW, STAGED_HIDDEN_HIGH) if staged else (HIDDEN_LOW, HIDDEN_HIGH)
    hidden = least + (most - least) * uniform
    behind_s = np.minimum(hidden * total_s, 0.9 * BACKWARD_SHARE * step_s)
    exposed_s = np.maximum(total_s - behind_s, last_s)
    jitter = JITTER * math.log2(count) * np.exp(JITTER_SIGMA * draws.jitter)
    return np.asarray((step_s + exposed_s) * (1 + jitter))

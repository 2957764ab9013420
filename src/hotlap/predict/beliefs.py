"""What is not known of a workload and of the machines around it, as draws.

Fixed draws (no random state): the same question always gets the same answer. Shape letter: D draws.
"""

from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from hotlap.predict.workload import Workload

Array = NDArray[np.float64]

NUM_DRAWS = 2048
# Spread (standard deviation of the logarithm) of what is not known. For totals the sizes of operators are assumed.
MEMORY_SIGMA = 0.25
TOTALS_MEMORY_SIGMA = 0.45
# Seconds of host time to dispatch one operator (Python, autograd, launch) where nothing was timed.
HOST_S = 1.5e-5
# Of that; of what was timed beside the script (its own Python comes on top); and between two machines. One H200's host
# takes 2.7 times as long as was forecast from another machine (benchmarks/predict/host.py).
HOST_SIGMA = 0.8
MEASURED_HOST_SIGMA = 0.4
OTHER_HOST_SIGMA = 0.7
# Part of scripts whose FP32 work really runs in TF32 on devices that have it: convolutions do unless switched off,
# matrix products in containers and in torch before 1.12.
TF32_SHARE = 0.75


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws:
    """(D,) of each; factors are 1 at the best guess."""

    memory: Array
    """Factors on the bytes that really travel, for each operation that is computed."""
    tf32: NDArray[np.bool_]
    """Whether FP32 matrix work uses TF32 where the precision leaves it open."""
    host_s: Array
    """Seconds of host time for each operator, where the step was measured."""
    there_host_s: Array
    """The same beside the target."""
    bus: Array
    """Standard normal, as the next two: rate of the links between several GPUs."""
    hidden: Array
    """How much of the communication hides."""
    jitter: Array
    """What waiting for the slowest GPU costs."""


@cache
def _normals(dimensions: int) -> Array:
    """(D, dimensions) standard normal numbers that fill space evenly: a Kronecker lattice of the generalised golden
    ratio (M. Roberts, "The unreasonable effectiveness of quasirandom sequences")."""
    from scipy.special import ndtri

    ratio = 2.0
    for _ in range(60):
        ratio = (1 + ratio) ** (1 / (dimensions + 1))
    steps = ratio ** -np.arange(1.0, dimensions + 1)
    uniform = (0.5 + np.outer(np.arange(1.0, NUM_DRAWS + 1), steps)) % 1.0
    return np.asarray(ndtri(uniform))


@lru_cache(maxsize=8)
def draws(workload: Workload, *, there_host_s: float | None = None) -> Draws:
    """What is believed.

    A measured step does not weigh the draws: those that explain it best are no nearer to the truth on another device,
    and farther where nobody says whether TF32 is used (0.131 / 0.405 beside 0.108 / 0.305).

    Arguments:
        there_host_s: seconds of the target's host for an operator, where they were measured.
    """
    normal = _normals(7)
    sigma = MEASURED_HOST_SIGMA if workload.host_s else HOST_SIGMA
    host_s = (workload.host_s or HOST_S) * np.exp(sigma * normal[:, 1])
    if there_host_s is None:
        beside = host_s * np.exp(OTHER_HOST_SIGMA * normal[:, 3])
    else:
        beside = there_host_s * np.exp(MEASURED_HOST_SIGMA * normal[:, 1])
    open_tf32 = normal[:, 2] < np.quantile(normal[:, 2], TF32_SHARE)
    return Draws(
        memory=np.exp((TOTALS_MEMORY_SIGMA if workload.totals_only else MEMORY_SIGMA) * normal[:, 0]),
        tf32=open_tf32 if workload.matmul_tf32 is None else np.full(NUM_DRAWS, workload.matmul_tf32),
        host_s=host_s,
        there_host_s=beside,
        bus=normal[:, 4],
        hidden=normal[:, 6],
        jitter=normal[:, 5],
    )

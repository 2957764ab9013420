"""What is not known about a workload, as draws.

Fixed draws (no random state): the same question always gets the same answer.
"""

from dataclasses import dataclass, replace
from functools import cache, lru_cache

import numpy as np

from hotlap.predict import timing
from hotlap.predict.scaling import Chance
from hotlap.predict.timing import Array, Draws
from hotlap.predict.workload import Workload

NUM_DRAWS = 2048
# Spread (standard deviation of the logarithm) of what is not known. For totals the sizes of operators are assumed.
MEMORY_SIGMA = 0.25
TOTALS_MEMORY_SIGMA = 0.45
# Of the host time of an operator: assumed, timed beside the script (its own Python comes on top), and between
# two machines.
HOST_SIGMA = 0.8
MEASURED_HOST_SIGMA = 0.4
OTHER_HOST_SIGMA = 0.5
# Part of scripts whose FP32 work really runs in TF32 on devices that have it: convolutions do unless switched off,
# matrix products in containers and in torch before 1.12.
TF32_SHARE = 0.75


@dataclass(frozen=True, slots=True, kw_only=True)
class Beliefs:
    """Draws, with what two machines add to them."""

    here: Draws
    there_host: Array
    """(D,) factors on host time beside the target."""
    chance: Chance
    """What differs between machines with several GPUs."""

    @property
    def there(self) -> Draws:
        """As the target sees them."""
        return replace(self.here, host_s=self.here.host_s * self.there_host)


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
def prior(workload: Workload) -> Beliefs:
    """What is believed.

    A measured step does not weigh the draws: those that explain it best are no nearer to the truth on another device,
    and farther where nobody says whether TF32 is used (0.131 / 0.405 beside 0.108 / 0.305).
    """
    normal = _normals(7)
    memory_sigma = TOTALS_MEMORY_SIGMA if workload.totals_only else MEMORY_SIGMA
    host_sigma = MEASURED_HOST_SIGMA if workload.host_s else HOST_SIGMA
    if workload.matmul_tf32 is None:
        from scipy.special import ndtr

        tf32 = ndtr(normal[:, 2]) < TF32_SHARE
    else:
        tf32 = np.full(NUM_DRAWS, workload.matmul_tf32)
    return Beliefs(
        here=Draws(
            memory=np.exp(memory_sigma * normal[:, 0]),
            host_s=(workload.host_s or timing.HOST_S) * np.exp(host_sigma * normal[:, 1]),
            tf32=tf32,
        ),
        there_host=np.exp(OTHER_HOST_SIGMA * normal[:, 3]),
        chance=Chance(bus=normal[:, 4], jitter=normal[:, 5], hidden=normal[:, 6]),
    )

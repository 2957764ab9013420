"""What is not known about a workload, as draws; and what a measured step says about it.

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
COMPUTE_SIGMA = 0.25
MEMORY_SIGMA = 0.25
TOTALS_COMPUTE_SIGMA = 0.45
TOTALS_MEMORY_SIGMA = 0.45
# A factor on everything, on every device alike: what the model leaves out.
RESIDUAL_SIGMA = 0.25
# Tails of that factor (Student's t): a workload far from the model still gets a smooth answer.
RESIDUAL_FREEDOM = 3.0
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
    residual: Array
    """(D,) what the model leaves out, on every device alike."""
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
    """What is believed before anything was measured."""
    normal = _normals(9)
    compute_sigma = TOTALS_COMPUTE_SIGMA if workload.totals_only else COMPUTE_SIGMA
    memory_sigma = TOTALS_MEMORY_SIGMA if workload.totals_only else MEMORY_SIGMA
    host_sigma = MEASURED_HOST_SIGMA if workload.host_s else HOST_SIGMA
    if workload.matmul_tf32 is None:
        from scipy.special import ndtr

        tf32 = ndtr(normal[:, 3]) < TF32_SHARE
    else:
        tf32 = np.full(NUM_DRAWS, workload.matmul_tf32)
    return Beliefs(
        here=Draws(
            compute=np.exp(compute_sigma * normal[:, 0]),
            memory=np.exp(memory_sigma * normal[:, 1]),
            host_s=(workload.host_s or timing.HOST_S) * np.exp(host_sigma * normal[:, 2]),
            tf32=tf32,
        ),
        residual=np.exp(RESIDUAL_SIGMA * normal[:, 4]),
        there_host=np.exp(OTHER_HOST_SIGMA * normal[:, 5]),
        chance=Chance(bus=normal[:, 6], jitter=normal[:, 7], hidden=normal[:, 8]),
    )


def weigh(ratio: Array) -> Array:
    """(D,) weights of draws under which a measured step is `ratio` times the modelled one."""
    far = (np.log(ratio) / RESIDUAL_SIGMA) ** 2
    return np.asarray((1 + far / RESIDUAL_FREEDOM) ** (-(RESIDUAL_FREEDOM + 1) / 2))


def quantiles(values: Array, weights: Array, at: tuple[float, ...]) -> list[float]:
    """Weighted quantiles of `values`."""
    order = np.argsort(values)
    total = np.cumsum(weights[order])
    return [float(value) for value in np.interp(np.array(at) * total[-1], total - weights[order] / 2, values[order])]

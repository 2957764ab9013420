"""fit_many(steps, X, y): several small networks at once, one thread each."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import torch

from hotlap.errors import UserError
from hotlap.small.step import CompiledStep


def fit_many(  # noqa: PLR0913 - those of CompiledStep.fit, and two of its own
    steps: Sequence[CompiledStep],
    X: torch.Tensor,  # noqa: N803 - as in scikit-learn
    y: torch.Tensor,
    *,
    epochs: int = 1,
    batch_size: int = 32,
    shuffle: bool = True,
    drop_last: bool = False,
    seeds: Sequence[int] | None = None,
    num_threads: int | None = None,
) -> list[list[float]]:
    """Fit an ensemble, several seeds or settings, each as by `CompiledStep.fit`; returns each one's losses by epoch.

    The native loop does not hold the interpreter, so the networks train in parallel. `seeds[i]` orders the samples of
    network i (by default i), so the result does not depend on the number of threads.
    """
    seeds = range(len(steps)) if seeds is None else seeds
    if len(seeds) != len(steps):
        raise UserError(f"there are {len(steps)} networks, but {len(seeds)} seeds.")

    def one(place: int) -> list[float]:
        return steps[place].fit(
            X,
            y,
            epochs=epochs,
            batch_size=batch_size,
            shuffle=shuffle,
            drop_last=drop_last,
            generator=torch.Generator().manual_seed(seeds[place]),
        )

    with ThreadPoolExecutor(num_threads or len(os.sched_getaffinity(0))) as pool:
        return list(pool.map(one, range(len(steps))))

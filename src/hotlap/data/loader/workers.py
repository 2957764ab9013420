"""What the workers of a loader are told, and whether they share memory with this process."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.data._utils import worker as torch_worker


@dataclass(frozen=True, slots=True)
class Role:
    """What a worker of the script is told."""

    num_workers: int
    init: Callable[[int], object] | None
    timeout_s: float = 0.0
    """What the script's loader waits for a batch at most; 0: for ever."""

    def play(self, number: int, dataset: Any) -> None:
        """IN A COPY: be that worker, as far as `torch.utils.data._utils.worker._worker_loop` makes one."""
        torch.set_num_threads(1)
        random.seed(number)  # with a base seed of 0
        torch.manual_seed(number)
        state: Any = torch_worker._generate_state(0, number)  # type: ignore[no-untyped-call]
        np.random.seed(state)
        self.tell(number, dataset)
        if self.init is not None:
            self.init(number)

    def tell(self, number: int, dataset: Any) -> None:
        """IN A COPY: what `get_worker_info` answers from now on."""
        torch_worker._worker_info = torch_worker.WorkerInfo(
            id=number, num_workers=self.num_workers, seed=number, dataset=dataset
        )


def play_first(role: Role | None, dataset: Any) -> None:
    """IN A COPY: be the first worker; None: only leave alone the threads of the pool, which are not there."""
    if role is None:
        torch.set_num_threads(1)
    else:
        role.play(0, dataset)


def role_of(loader: Any) -> Role:
    """What the workers of this loader are told."""
    return Role(loader.num_workers, loader.worker_init_fn, loader.timeout)


def why_no_copies(loader: Any) -> str | None:
    """Why a loader's workers do not share this process's memory; None if they are forked copies of it."""
    context = loader.multiprocessing_context
    method = context if context is None or isinstance(context, str) else context.get_start_method()
    method = method or torch.multiprocessing.get_start_method()
    return None if method == "fork" else f"its workers are started by {method}, so they share no memory with this one"

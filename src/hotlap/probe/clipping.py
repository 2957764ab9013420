"""To what limits a script clips its gradients: where none of them is that large, no loss shows the limit."""

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import utils

from hotlap.levers.lever import Patch
from hotlap.probe import unseen
from hotlap.probe.thread import TrainingThread

# (name of the function, name of its limit, what it limits)
_FUNCTIONS = (("clip_grad_norm_", "max_norm", "norm"), ("clip_grad_value_", "clip_value", "value"))


class Clips:
    """The limits of a step, and whether a gradient was beyond one."""

    def __init__(self) -> None:
        self._limits: set[str] = set()
        self._clipped = False

    def add(self, what: str, limit: Any, norm: torch.Tensor | None) -> None:
        """Gradients were clipped to `limit`; before, they had `norm` (None: not known)."""
        limit = float(limit)
        self._limits.add(f"{what} {limit:g}")
        self._clipped |= norm is not None and float(norm) > limit

    def take(self) -> tuple[str, bool] | None:
        """As `Run.clips`, since the last call. What compiled code clips is not seen."""
        limits, clipped, self._limits, self._clipped = self._limits, self._clipped, set(), False
        return (" and ".join(sorted(limits)), clipped) if limits or not unseen.compiles else None


def hook(patch: Patch, thread: TrainingThread, told: Callable[[str, Any, torch.Tensor | None], None]) -> None:
    """`told` is called as `Clips.add`, whenever the training thread clips gradients."""
    for name, key, what in _FUNCTIONS:

        def clipped(norm: torch.Tensor | None, *args: Any, key: str = key, what: str = what, **kwargs: Any) -> None:
            told(what, args[1] if len(args) > 1 else kwargs[key], norm)

        wrapper = thread.telling(getattr(utils, name), clipped)
        for module in (utils, utils.clip_grad):
            patch.set(module, name, wrapper)

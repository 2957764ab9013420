"""batch-size: larger batches, with the learning rate rescaled. Another training: only on request."""

import math
from collections.abc import Sequence
from functools import wraps
from inspect import signature
from typing import Any

from hotlap.levers.lever import Lever, Numerics, Patch
from hotlap.record import Ceiling, Machine, Run

# Their step is the gradient times the rate; all others divide the gradient by a measure of its own size.
_PLAIN = ("SGD", "ASGD")


class BatchSize(Lever):
    """Gives loaders of one batch size another one, and optimizers the learning rate that goes with it.

    What: loaders made with `batch_size=before` get `size`. In each step the learning rates, whatever the script has set
    them to by then, are multiplied: by `size / before` for SGD (Goyal et al., arXiv 1706.02677), by its square root for
    optimizers that normalise the gradient, such as Adam (Malladi et al., arXiv 2205.10287). Schedules are the script's
    own: one of so many updates then lasts for more samples, unless its length was taken from the loader's.
    Why: small batches leave the machine waiting for the start of each operator.
    When it hurts: it is another training. From some batch size on more samples a step bring no more progress, small
    data sets overfit otherwise, weight decay and batch norm see other statistics, and other settings may want to be
    tuned anew (Google's tuning playbook). So it is judged by the time to a loss, and is never part of a patch.
    """

    numerics = Numerics.RECIPE

    before: int = 1
    size: int = 1

    def rejects(self, run: Run, machine: Machine) -> str | None:
        """It needs a loader with a batch size, and an optimizer whose rate can be set."""
        if batch_size_of(run) is None:
            return "Training does not draw its batches from DataLoaders with one batch size."
        if not run.optimizers:
            return "No optimizer of torch's was seen, so there is no learning rate to go with another batch size."
        if any(optimizer.closure for optimizer in run.optimizers):
            return "The optimizer searches its step with a closure; no rule says what another batch size does to that."
        return None

    def saves_at_most_s(self, run: Run, ceilings: Sequence[Ceiling]) -> float:
        """Nothing of a step: there are fewer of them."""
        return 0.0

    def install(self, patch: Patch) -> None:
        """Loaders that are made from now on, and optimizers."""
        _resize_loaders(patch, before=self.before, size=self.size)
        _scale_rates(patch, self.size / self.before)


def batch_size_of(run: Run) -> int | None:
    """The batch size of all loaders that serve training; None where there is none, or several."""
    sizes = {loader.batch_size for loader in run.loaders if loader.trained_on}
    return sizes.pop() if len(sizes) == 1 else None


def rate_factor(name: str, growth: float) -> float:
    """What the learning rate of an optimizer class is multiplied by where the batch grows by `growth`."""
    return growth if name.rpartition(".")[2] in _PLAIN else math.sqrt(growth)


def _resize_loaders(patch: Patch, *, before: int, size: int) -> None:
    from torch.utils.data import DataLoader

    make = DataLoader.__init__
    parameters = signature(make)

    @wraps(make)
    def __init__(loader: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - it becomes that method
        try:
            given = parameters.bind(loader, *args, **kwargs)
        except TypeError:
            make(loader, *args, **kwargs)  # torch itself says what is wrong
            return
        if given.arguments.get("batch_size") == before and given.arguments.get("batch_sampler") is None:
            given.arguments["batch_size"] = size
        make(*given.args, **given.kwargs)

    patch.set(DataLoader, "__init__", __init__)


def _scale_rates(patch: Patch, growth: float) -> None:
    from torch.optim import optimizer as module

    written: dict[int, list[Any]] = {}

    def before(optimizer: Any, args: Any, kwargs: Any) -> None:
        factor = rate_factor(type(optimizer).__name__, growth)
        written[id(optimizer)] = [group["lr"] for group in optimizer.param_groups]
        for group in optimizer.param_groups:
            group["lr"] = group["lr"] * factor

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        # The script reads, logs and schedules the rate that it has set.
        for group, rate in zip(optimizer.param_groups, written.pop(id(optimizer), ()), strict=False):
            group["lr"] = rate

    patch.on_undo(module.register_optimizer_step_pre_hook(before).remove)
    patch.on_undo(module.register_optimizer_step_post_hook(after).remove)

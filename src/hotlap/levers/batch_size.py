"""batch-size: larger batches, with the learning rate and its schedule rescaled. Another training: only on request."""

import math
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from typing import Any, ClassVar, final

from hotlap.levers.lever import Lever, Numerics, Patch
from hotlap.record import Ceiling, Machine, OptimizerFacts, Run
from hotlap.source import Edit

# Their step is the gradient times the rate; all others divide the gradient by a measure of its own size.
_PLAIN = ("SGD", "ASGD")


@final
@dataclass(frozen=True, slots=True)
class BatchSize(Lever):
    """Gives loaders of one batch size another one, and optimizers the learning rate that goes with it.

    What: loaders made with `batch_size=before` get `size`. In each step the learning rates, whatever the script has set
    them to by then, are multiplied: by `size / before` for SGD (Goyal et al., arXiv 1706.02677), by its square root for
    optimizers that normalise the gradient, such as Adam (Malladi et al., arXiv 2205.10287). A schedule that is stepped
    after each update is stepped as many times as the batch has grown, unless its length was taken from the loader's.
    Why: small batches leave the machine waiting for the start of each operator.
    When it hurts: it is another training. From some batch size on more samples a step bring no more progress, small
    data sets overfit otherwise, weight decay and batch norm see other statistics, and other settings may want to be
    tuned anew (Google's tuning playbook). So it is judged by the time to a loss, and is never part of a patch.
    """

    numerics: ClassVar[Numerics] = Numerics.RECIPE

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
        """Loaders that are made from now on, optimizers, and schedulers."""
        lengths = _resize_loaders(patch, before=self.before, size=self.size)
        updates = _scale_rates(patch, self.size / self.before)
        _step_schedules(patch, self.size / self.before, lengths, updates)

    def edits(self, run: Run) -> Sequence[Edit]:
        """None: the recipe is the user's."""
        return ()


def batch_size_of(run: Run) -> int | None:
    """The batch size of all loaders that serve training; None where there is none, or several."""
    sizes = {loader.batch_size for loader in run.loaders if loader.trained_on}
    return sizes.pop() if len(sizes) == 1 else None


def rule(optimizer: OptimizerFacts | str) -> str:
    """The rule for the learning rate: "linear" or "square-root"."""
    name = optimizer if isinstance(optimizer, str) else optimizer.name
    return "linear" if name.rpartition(".")[2] in _PLAIN else "square-root"


def rate_factor(name: str, growth: float) -> float:
    """What the learning rate of an optimizer class is multiplied by where the batch grows by `growth`."""
    return growth if rule(name) == "linear" else math.sqrt(growth)


class _Lengths:
    """Has the script asked a resized loader for its length?"""

    def __init__(self) -> None:
        self.resized: weakref.WeakSet[Any] = weakref.WeakSet()
        self.asked = False


def _resize_loaders(patch: Patch, *, before: int, size: int) -> _Lengths:
    from torch.utils.data import DataLoader

    lengths = _Lengths()
    make, length = DataLoader.__init__, DataLoader.__len__
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
            lengths.resized.add(loader)
        make(*given.args, **given.kwargs)

    @wraps(length)
    def __len__(loader: Any) -> int:  # noqa: N807 - it becomes that method
        lengths.asked = lengths.asked or loader in lengths.resized
        return length(loader)

    patch.set(DataLoader, "__init__", __init__)
    patch.set(DataLoader, "__len__", __len__)
    return lengths


def _scale_rates(patch: Patch, growth: float) -> dict[int, int]:
    """Id of an optimizer -> its updates since its schedule was stepped."""
    from torch.optim import optimizer as module

    updates: dict[int, int] = {}
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
        updates[id(optimizer)] = updates.get(id(optimizer), 0) + 1

    patch.on_undo(module.register_optimizer_step_pre_hook(before).remove)
    patch.on_undo(module.register_optimizer_step_post_hook(after).remove)
    return updates


def _step_schedules(patch: Patch, growth: float, lengths: _Lengths, updates: dict[int, int]) -> None:
    from torch.optim import lr_scheduler

    follows: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()
    owed: weakref.WeakKeyDictionary[Any, float] = weakref.WeakKeyDictionary()
    stepping = [False]

    def taught(step: Any) -> Any:
        @wraps(step)
        def stepped(schedule: Any, *args: Any, **kwargs: Any) -> Any:
            if stepping[0]:
                return step(schedule, *args, **kwargs)
            # Its first step is made by its own constructor.
            own_length = follows.setdefault(schedule, lengths.asked)
            made = updates.pop(id(getattr(schedule, "optimizer", None)), 0)
            stepping[0] = True
            try:
                result = step(schedule, *args, **kwargs)
                if made == 1 and not own_length:
                    owed[schedule] = owed.get(schedule, 0.0) + growth - 1
                    while owed[schedule] >= 1 and not _is_over(schedule):
                        owed[schedule] -= 1
                        step(schedule, *args, **kwargs)
            finally:
                stepping[0] = False
            return result

        return stepped

    for kind in (lr_scheduler.LRScheduler, lr_scheduler.SequentialLR, lr_scheduler.ChainedScheduler):
        patch.set(kind, "step", taught(kind.step))


def _is_over(schedule: Any) -> bool:
    """One that refuses to be stepped beyond its end."""
    total = getattr(schedule, "total_steps", None)
    return total is not None and schedule.last_epoch + 1 >= total

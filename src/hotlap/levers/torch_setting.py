"""What a lever sets in torch and in its optimizers: switched and written in the source from one description."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from hotlap.levers.lever import Patch, behind_imports
from hotlap.record import Run
from hotlap.source import AddArgument, Edit


@dataclass(frozen=True, slots=True)
class TorchSetting:
    """What `torch.set_NAME` and `torch.get_NAME` are about."""

    name: str
    """ "num_threads"."""
    value: int | str

    def install(self, patch: Patch) -> None:
        """CHILD: from the next operator on."""
        import torch

        put, before = getattr(torch, f"set_{self.name}"), getattr(torch, f"get_{self.name}")()
        put(self.value)
        patch.on_undo(lambda: put(before))

    def edits(self, run: Run) -> Sequence[Edit]:
        """One line behind the imports."""
        return behind_imports(run, f"torch.set_{self.name}({json.dumps(self.value)})", imports="import torch")


@dataclass(frozen=True, slots=True)
class OptimizerSetting:
    """A flag of optimizers that is turned on where the script left the choice to torch."""

    name: str
    """ "fused"."""
    instead_of: tuple[str, ...] = ()
    """Flags that exclude it: a script that chose one of them has chosen."""

    def install(self, patch: Patch) -> None:
        """CHILD: in each optimizer, those made later included."""
        patch.on_optimizer.append(lambda optimizer: self._turn_on(optimizer, patch))

    def edits(self, run: Run, optimizers: Collection[int]) -> Sequence[Edit]:
        """The argument where the script makes these optimizers itself: a function that makes one may not take it."""
        return tuple(
            AddArgument(site=site, keyword=self.name, value="True")
            for site in run.call_sites
            if site.detail.get("optimizer") in optimizers and not site.detail.get("through")
        )

    def _turn_on(self, optimizer: Any, patch: Patch) -> None:
        if optimizer.defaults.get(self.name, False) is not None:
            return
        for settings in (optimizer.defaults, *optimizer.param_groups):
            if all(settings.get(flag) is None for flag in (self.name, *self.instead_of)):
                settings[self.name] = True
                patch.on_undo(partial(settings.__setitem__, self.name, None))
        _place_counters(optimizer, on_device=True)
        patch.on_undo(lambda: _place_counters(optimizer, on_device=False))


def _place_counters(optimizer: Any, *, on_device: bool) -> None:
    """On a GPU the fused kernels keep the step counter beside the parameter, the others on the host."""
    for parameter, state in optimizer.state.items():
        step = state.get("step")
        if hasattr(step, "to") and parameter.device.type != "cpu":
            state["step"] = step.to(parameter.device if on_device else "cpu")

"""The levers of a plan inside the training process: arms are switched, and what the script was edited for is asked."""

import torch

from hotlap import at_work, levers
from hotlap.levers.compiling import Compilation
from hotlap.levers.lever import Patch
from hotlap.record import Plan


class Arms:
    """One arm is active at a time; levers in `Plan.always` are in the script's text, or in the environment."""

    def __init__(self, plan: Plan) -> None:
        self._always = [levers.from_spec(spec) for spec in plan.always]
        self._compiled = {lever.title(): Compilation() for lever in self._always if lever.compiles}
        self._arms = [[levers.from_spec(spec) for spec in arm] for arm in plan.arms]
        self._patches: dict[Patch, str] = {}
        """Of the active arm: each with the title of its lever."""
        self._active: int | None = None
        self._not_installed: list[str] = []

    @property
    def notes(self) -> list[str]:
        """Sentences of the levers."""
        edited = [note for one in self._compiled.values() for note in one.notes()]
        return [*edited, *at_work.notes()]

    @property
    def not_installed(self) -> list[str]:
        """What could not be installed, or found nothing that it could work on, and why: such a run says nothing about
        these levers."""
        idle = [(title, patch.why_idle()) for patch, title in self._patches.items()]
        idle += [(lever.title(), at_work.why_idle(lever.function)) for lever in self._always if lever.function]
        idle += [(title, one.why_idle()) for title, one in self._compiled.items()]
        return [*self._not_installed, *(f"{title}: {reason}" for title, reason in idle if reason)]

    def install(self) -> None:
        """At the start of the process: a single arm is installed for good."""
        if len(self._arms) == 1:
            self.switch(0, [])

    def optimizer_made(self, optimizer: torch.optim.Optimizer) -> None:
        """Levers that act on optimizers see each one as it is made."""
        for patch in self._patches:
            patch.optimizer_made(optimizer)

    def switch(self, arm: int, optimizers: list[torch.optim.Optimizer]) -> None:
        """Between two steps: the levers of the last arm out, in reverse, those of `arm` in."""
        if arm == self._active:
            return
        while self._patches:
            self._patches.popitem()[0].undo()
        self._active = arm
        for lever in self._arms[arm]:
            patch = Patch()
            try:
                lever.install(patch)
            except Exception as error:
                patch.undo()
                self._not_installed.append(f"{lever.title()}: {type(error).__name__}: {error}")
            for optimizer in optimizers:
                patch.optimizer_made(optimizer)
            self._patches[patch] = lever.title()

    def hurry(self) -> None:
        """The warm-up has ended for want of patience: steps tell nothing of what is not settled yet."""
        late = [one.title() for one in self._always if one.function and not at_work.settled(one.function)]
        self._not_installed += (
            f"{title}: still filling when its warm-up had to end, so its steps tell nothing of it" for title in late
        )

    def settled(self) -> bool:
        """Every lever has reached its steady state."""
        edited = all([one.settled() for one in self._compiled.values()])  # each counts how often it is asked
        return edited and at_work.settled()

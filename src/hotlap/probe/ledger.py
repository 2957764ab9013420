"""The arrays of a Run, filled step by step."""

from collections.abc import Mapping
from typing import Any

import torch

from hotlap.probe import clock as phases
from hotlap.probe.clock import PHASES
from hotlap.record import Number, Phase, as_number

# The first steps are kept even when they are not recorded: they hold the one-time costs.
_MAX_FIRST_STEPS = 2000


class Ledger:
    """Appends one row a step; `columns` turns the rows into the fields of a Run."""

    def __init__(self) -> None:
        self.first_steps_s: list[float] = []
        self.epoch_starts: list[int] = []
        self.batch_digest: list[str | None] = []
        self.rng_digest: list[str] = []
        self.settings_digest: list[str] = []
        self.learning_rates: list[tuple[float, ...]] = []
        self._spent: list[list[float]] = []
        self._arm: list[int] = []
        self._block: list[int] = []
        self._step_index: list[int] = []
        self._loss: list[list[torch.Tensor | float]] = []
        self._num_samples: list[int | None] = []
        self._num_updates: list[int] = []

    def __len__(self) -> int:
        return len(self._spent)

    def warm_up(self, spent: list[float]) -> None:
        """A step that is not recorded."""
        if len(self.first_steps_s) < _MAX_FIRST_STEPS:
            self.first_steps_s.append(sum(spent))

    def step(
        self,
        spent: list[float],
        *,
        arm: int,
        block: int,
        step_index: int,
        losses: list[torch.Tensor | float],
        num_samples: int | None,
        num_updates: int,
        epoch_started: bool,
    ) -> None:
        """A recorded step; `losses` may still live on a device."""
        if epoch_started:
            self.epoch_starts.append(len(self._spent))
        self._spent.append(spent)
        self._arm.append(arm)
        self._block.append(block)
        self._step_index.append(step_index)
        self._loss.append(losses)
        self._num_samples.append(num_samples)
        self._num_updates.append(num_updates)

    def columns(self, *, measured: frozenset[int], evidence: bool) -> Mapping[str, Any]:
        """Fields of a Run. `measured`: phases that were seen at all; the others are None, never 0."""
        fields: dict[str, Any] = {
            "first_steps_s": tuple(self.first_steps_s),
            "step_s": tuple(sum(row) for row in self._spent),
            "phase_s": self._phases(measured),
            "arm": tuple(self._arm),
            "block": tuple(self._block),
            "step_index": tuple(self._step_index),
            "epoch_starts": tuple(self.epoch_starts),
            "loss": tuple(_total(row) for row in self._loss),
            "num_samples": tuple(self._num_samples),
            "num_updates": tuple(self._num_updates),
        }
        if evidence:
            fields |= {
                "batch_digest": tuple(self.batch_digest),
                "rng_digest": tuple(self.rng_digest),
                "settings_digest": tuple(self.settings_digest),
                "learning_rates": tuple(self.learning_rates),
            }
        return fields

    def _phases(self, measured: frozenset[int]) -> dict[Phase, tuple[float, ...] | None]:
        # Time that went to a phase cannot be lost: what was entered was measured.
        return {
            phase: tuple(row[i] for row in self._spent) if i in measured or i == phases.OTHER else None
            for i, phase in enumerate(PHASES)
        }


def _total(losses: list[torch.Tensor | float]) -> Number:
    """Sum of the scalars of one step, in float64; None without one."""
    if not losses:
        return None
    return as_number(sum(float(loss) for loss in losses))

"""One file a diagnosis: (Run, Machine) -> Finding | None. `check` asks all and puts the answers in order.

A finding's cost is what a step would save at most if its cause were gone. Costs may overlap, because causes lie one
behind the other: anomaly mode makes calls expensive, calls make the step launch-bound. So a cause takes the place of
what it explains (`EXPLAINS`), and `compute-bound`, which is no fault, is said where nothing else is.
"""

from collections.abc import Mapping
from typing import Protocol

from hotlap.record import Finding, Machine, Run
from hotlap.rules import (
    attention_over_batch,
    communication_bound,
    compute_bound,
    cpu_with_idle_gpu,
    debug_left_on,
    distribution_checks,
    epoch_gap,
    host_bound,
    input_bound,
    launch_bound,
    memory_bound,
    memory_growth,
    optimizer_bound,
    shape_churn,
    straggler,
    sync_bound,
    thread_oversubscription,
    thread_starvation,
    too_small_for_gpu,
    transfer_bound,
    wasted_forward,
)

__all__ = ["ALL", "EXPLAINS", "Rule", "check"]


class Rule(Protocol):
    """What each file of this folder has as `check`. `machine`: where the run was made; None where that is unknown."""

    def __call__(self, run: Run, machine: Machine | None = None) -> Finding | None:
        """The finding, or None where there is nothing to say."""


ALL: Mapping[str, Rule] = {
    "input-bound": input_bound.check,
    "epoch-gap": epoch_gap.check,
    "transfer-bound": transfer_bound.check,
    "launch-bound": launch_bound.check,
    "memory-bound": memory_bound.check,
    "optimizer-bound": optimizer_bound.check,
    "host-bound": host_bound.check,
    "sync-bound": sync_bound.check,
    "communication-bound": communication_bound.check,
    "straggler": straggler.check,
    "shape-churn": shape_churn.check,
    "thread-oversubscription": thread_oversubscription.check,
    "thread-starvation": thread_starvation.check,
    "debug-left-on": debug_left_on.check,
    "memory-growth": memory_growth.check,
    "distribution-checks": distribution_checks.check,
    "wasted-forward": wasted_forward.check,
    "cpu-with-idle-gpu": cpu_with_idle_gpu.check,
    "too-small-for-gpu": too_small_for_gpu.check,
    "attention-over-batch": attention_over_batch.check,
    "compute-bound": compute_bound.check,
}
"""Code of the finding -> the rule that makes it."""

_MODEL = frozenset({"launch-bound", "memory-bound"})

EXPLAINS: Mapping[str, frozenset[str]] = {
    "epoch-gap": frozenset({"input-bound"}),
    "thread-oversubscription": _MODEL | {"input-bound", "optimizer-bound", "host-bound"},
    "thread-starvation": _MODEL | {"optimizer-bound", "host-bound"},
    "debug-left-on": _MODEL | {"optimizer-bound", "host-bound", "sync-bound"},
    "shape-churn": _MODEL | {"host-bound"},
    "wasted-forward": _MODEL,
    "memory-growth": _MODEL | {"host-bound"},
    "attention-over-batch": _MODEL,
    "too-small-for-gpu": frozenset({"launch-bound", "sync-bound"}),
    "sync-bound": frozenset({"launch-bound"}),
    "straggler": frozenset({"communication-bound"}),
}
"""Cause -> findings that it makes by itself."""

# A cause explains another finding when it accounts for at least so much of its cost.
_ENOUGH = 0.5

# What has no fault to fix.
_NO_FAULT = "compute-bound"


def check(run: Run, machine: Machine | None = None) -> tuple[Finding, ...]:
    """All findings about a run, costliest first after what ends it; what another one explains is left out."""
    found = [finding for rule in ALL.values() if (finding := rule(run, machine)) is not None]
    faults = [finding for finding in found if finding.code != _NO_FAULT]
    kept = [finding for finding in faults if not _explained(finding, faults)]
    return tuple(sorted(kept or found, key=lambda finding: (not finding.urgent, -finding.cost_s)))


def _explained(finding: Finding, others: list[Finding]) -> bool:
    return any(
        finding.code in EXPLAINS.get(other.code, ()) and other.cost_s >= _ENOUGH * finding.cost_s for other in others
    )

"""One file a diagnosis: Run -> Finding | None."""

from collections.abc import Callable

from hotlap.record import Finding, Run
from hotlap.rules import compute_bound, host_bound, input_bound, optimizer_bound

__all__ = ["ALL", "check"]

Rule = Callable[[Run], Finding | None]

ALL: dict[str, Rule] = {
    "input-bound": input_bound.check,
    "optimizer-bound": optimizer_bound.check,
    "host-bound": host_bound.check,
    "compute-bound": compute_bound.check,
}
"""Code of the finding -> the rule that makes it."""


def check(run: Run) -> tuple[Finding, ...]:
    """All findings about a run, costliest first."""
    found = [finding for rule in ALL.values() if (finding := rule(run)) is not None]
    return tuple(sorted(found, key=lambda finding: -finding.cost_s))

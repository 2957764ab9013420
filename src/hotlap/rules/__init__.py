"""One file a diagnosis: (Run, Machine) -> Finding | None. `check` asks all and puts the answers in order.

A file that has a `check` is a rule, by the name of the file.

A finding's cost is what a step would save at most if its cause were gone. Costs may overlap, because causes lie one
behind the other: anomaly mode makes calls expensive, calls make the step launch-bound. So a cause takes the place of
what it explains (`EXPLAINS`), and `compute-bound`, which is no fault, is said where nothing else is: no advice that
explains it, or has its edit ready.
Of several processes that train together, phases are judged by what they have in common: one rank's own part is the
straggler's (`straggler.in_common`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import wraps
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Protocol

from hotlap.record import Finding, Machine, Run
from hotlap.rules.straggler import in_common

__all__ = ["ALL", "EXPLAINS", "EXPLANATIONS", "RISKS", "Rule", "check", "in_order"]


class Rule(Protocol):
    """What each file of this folder has as `check`. `machine`: where the run was made; None where that is unknown."""

    def __call__(self, run: Run, machine: Machine | None = None) -> Finding | None:
        """The finding, or None where there is nothing to say."""


def _found() -> Mapping[str, Any]:
    """Code of the finding -> the file of this folder that makes it: each that has a `check`."""
    modules = {one.name.replace("_", "-"): import_module(f"{__name__}.{one.name}") for one in iter_modules(__path__)}
    return {code: module for code, module in sorted(modules.items()) if hasattr(module, "check")}


_FILES = _found()

EXPLAINS: Mapping[str, frozenset[str]] = {
    code: module.EXPLAINS for code, module in _FILES.items() if hasattr(module, "EXPLAINS")
}
"""Cause -> findings that it makes by itself, as its file has it."""

EXPLANATIONS: Mapping[str, str] = {code: module.__doc__ or "" for code, module in _FILES.items()}
"""Code of the finding -> what it says, why it is bad, an example, code before and after."""

RISKS: Mapping[str, str] = {
    code: " ".join(text.partition("\nRisk: ")[2].partition("\n\n")[0].split()) for code, text in EXPLANATIONS.items()
}
"""Code of the finding -> what its remedy may change, as its explanation says."""


def _named(code: str, check: Rule) -> Rule:
    """The rule, its findings with their code and risk."""

    @wraps(check)
    def named(run: Run, machine: Machine | None = None) -> Finding | None:
        found = check(run, machine)
        return None if found is None else replace(found, code=code, risk=RISKS[code])

    return named


ALL: Mapping[str, Rule] = {code: _named(code, module.check) for code, module in _FILES.items()}
"""Code of the finding -> the rule that makes it."""


# A cause explains another finding when it accounts for at least so much of its cost.
_ENOUGH = 0.5

# What advice could bring at most counts half beside what was measured.
_OF_ADVICE = 0.5

# What has no fault to fix is left out beside what can be fixed, unless that is negligible.
_NO_FAULT = "compute-bound"


def check(run: Run, machine: Machine | None = None) -> tuple[Finding, ...]:
    """All findings about a run, the one to look at first as the first. What another one explains is left out, and what
    costs next to nothing, unless it is a warning of another kind."""
    run = in_common(run)
    found = [finding for rule in ALL.values() if (finding := rule(run, machine)) is not None]
    found = [finding for finding in found if finding.at_any_cost or not finding.is_negligible]
    advice = [finding for finding in found if finding.advice]
    measured = [finding for finding in found if not finding.advice]
    faults = [finding for finding in measured if finding.code != _NO_FAULT]
    kept = [finding for finding in faults if not _explained(finding, faults, run)]
    ready = [finding for finding in advice if finding.after]
    if all(finding.is_negligible for finding in (*kept, *ready)):
        kept += [finding for finding in measured if finding.code == _NO_FAULT and not _explained(finding, advice, run)]
    return in_order([*kept, *advice])


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The one to look at first comes first: what ends the training, the costliest, the model's own work, and last what
    costs next to nothing."""
    return tuple(sorted(findings, key=_place))


def _place(finding: Finding) -> tuple[bool, bool, bool, float, bool]:
    weight_s = finding.cost_s * (_OF_ADVICE if finding.advice else 1.0)
    nothing_to_fix = finding.code == _NO_FAULT
    return finding.is_negligible, not finding.urgent, nothing_to_fix, -weight_s, finding.advice


def _explained(finding: Finding, others: list[Finding], run: Run) -> bool:
    return any(
        finding.code in _explains(other.code, run) and other.cost_s >= _ENOUGH * finding.cost_s for other in others
    )


def _explains(code: str, run: Run) -> frozenset[str]:
    """What a cause makes by itself; in this run, where its file has a function for that."""
    return _FILES[code].explains(run) if hasattr(_FILES[code], "explains") else EXPLAINS.get(code, frozenset())

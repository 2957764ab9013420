"""What every rule must do: one code, a docstring that teaches, a sentence with numbers, an eye for shares only."""

import importlib
import math
import re
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotlap import levers, rules
from hotlap.record import Phase, Run, Status
from tests.conformance.recorded import awkward_runs
from tests.sample_runs import loader, optimizer, run_with

every_rule = pytest.mark.parametrize("code", rules.ALL)


def run_of_shares(shares: Mapping[Phase, float], *, step_s: float = 0.01) -> Run:
    """A run whose steps are divided like that; "other" takes the rest."""
    phases = {phase: share * step_s for phase, share in shares.items()}
    phases[Phase.OTHER] = phases.get(Phase.OTHER, 0.0) + step_s * (1 - sum(shares.values()))
    return replace(run_with(phases=phases, num_steps=40), loaders=(loader(),), optimizers=(optimizer(),))


_HEALTHY = {Phase.INPUT: 0.01, Phase.FORWARD: 0.36, Phase.BACKWARD: 0.56, Phase.OPTIMIZER: 0.04}
_STARVED = {Phase.INPUT: 0.60, Phase.FORWARD: 0.15, Phase.BACKWARD: 0.15, Phase.OPTIMIZER: 0.06}

# Code -> shares of a run on which it fires, and of one on which it is silent.
FIXTURES: Mapping[str, tuple[Mapping[Phase, float], Mapping[Phase, float]]] = {
    "input-bound": (_STARVED, _HEALTHY),
    "optimizer-bound": ({**_STARVED, Phase.INPUT: 0.0, Phase.OPTIMIZER: 0.4}, _HEALTHY),
    "host-bound": ({**_STARVED, Phase.INPUT: 0.0, Phase.OTHER: 0.3}, _HEALTHY),
    "compute-bound": (_HEALTHY, _STARVED),
}

# Borders of a share that decides: far enough from each threshold that rounding does not.
scales = st.floats(1e-7, 1e4)


def test_each_rule_has_its_fixture() -> None:
    assert set(FIXTURES) == set(rules.ALL)


@every_rule
def test_has_one_name_in_all_its_spellings(code: str) -> None:
    assert rules.ALL[code].__module__ == f"hotlap.rules.{code.replace('-', '_')}"


@every_rule
def test_teaches_what_why_and_by_example(code: str) -> None:
    text = importlib.import_module(rules.ALL[code].__module__).__doc__ or ""
    assert text.startswith(f"{code}: ")
    assert re.search(r"^What it says: .+^Why it .+: .+^Example: .+", text, re.MULTILINE | re.DOTALL)


@every_rule
def test_fires_on_its_fixture_with_the_code_it_is_known_by(code: str) -> None:
    finding = rules.ALL[code](run_of_shares(FIXTURES[code][0]))
    assert finding is not None
    assert finding.code == code


@every_rule
def test_is_silent_where_nothing_is_wrong(code: str) -> None:
    assert rules.ALL[code](run_of_shares(FIXTURES[code][1])) is None


@every_rule
def test_the_evidence_is_a_sentence_with_numbers(code: str) -> None:
    finding = rules.ALL[code](run_of_shares(FIXTURES[code][0]))
    assert finding is not None
    assert finding.evidence.endswith(".")
    assert "\n" not in finding.evidence
    assert re.search(r"\d(\.\d+)? (us|ms|s)\b", finding.evidence), "how long"
    assert re.search(r"\d%", finding.evidence), "how much of the step"


@every_rule
def test_cost_and_share_say_the_same(code: str) -> None:
    run = run_of_shares(FIXTURES[code][0])
    finding = rules.ALL[code](run)
    assert finding is not None
    assert 0 <= finding.share <= 1
    assert finding.cost_s == pytest.approx(finding.share * sum(run.step_s) / len(run.step_s))


@every_rule
def test_it_names_levers_that_exist(code: str) -> None:
    finding = rules.ALL[code](run_of_shares(FIXTURES[code][0]))
    assert finding is not None
    known = {kind.name for kind in levers.ALL}
    assert set(finding.try_levers) <= known
    assert len(set(finding.try_levers)) == len(finding.try_levers)


@every_rule
@given(scale=scales)
@settings(max_examples=20, deadline=None)
def test_judges_the_share_not_the_speed_of_the_machine(code: str, scale: float) -> None:
    fires, silent = FIXTURES[code]
    finding = rules.ALL[code](run_of_shares(fires, step_s=scale))
    assert finding is not None
    assert finding.share == pytest.approx(sum_of(code, fires), rel=1e-6)
    assert rules.ALL[code](run_of_shares(silent, step_s=scale)) is None


def sum_of(code: str, shares: Mapping[Phase, float]) -> float:
    """The share that the rule of that code is about."""
    about = {
        "input-bound": (Phase.INPUT,),
        "optimizer-bound": (Phase.OPTIMIZER,),
        "compute-bound": (Phase.FORWARD, Phase.BACKWARD),
    }
    if code == "host-bound":
        return shares.get(Phase.OTHER, 0.0) + 1 - sum(shares.values())
    return sum(shares[phase] for phase in about[code])


@every_rule
def test_what_was_not_measured_is_not_judged(code: str) -> None:
    run = replace(run_of_shares(FIXTURES[code][0]), phase_s=dict.fromkeys(Phase))
    assert rules.ALL[code](run) is None
    assert rules.ALL[code](Run(status=Status.SILENT)) is None


@every_rule
@pytest.mark.parametrize("name", awkward_runs())
def test_survives_every_run(code: str, name: str) -> None:
    finding = rules.ALL[code](awkward_runs()[name])
    assert finding is None or math.isfinite(finding.cost_s)


@given(
    parts=st.fixed_dictionaries(
        {phase: st.floats(0, 1) for phase in (Phase.INPUT, Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER, Phase.OTHER)}
    ).filter(lambda parts: sum(parts.values()) > 0.1)
)
@settings(max_examples=100, deadline=None)
def test_findings_come_costliest_first_and_never_cost_more_than_the_step(parts: dict[Phase, float]) -> None:
    run = replace(run_with(phases=parts, num_steps=3), loaders=(loader(),), optimizers=(optimizer(),))
    found = rules.check(run)
    costs = [finding.cost_s for finding in found]
    assert costs == sorted(costs, reverse=True)
    assert sum(costs) <= run.step_s[0] * (1 + 1e-9), "the phases are disjoint, and so is what the rules say"
    assert len({finding.code for finding in found}) == len(found)

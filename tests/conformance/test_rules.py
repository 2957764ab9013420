"""What every rule must do: one code, a docstring that teaches, a sentence with numbers, an eye for shares only."""

import ast
import importlib
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from hashlib import sha256
from itertools import product
from pathlib import Path
from textwrap import indent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotlap import levers, rules
from hotlap.record import Finding, Machine, Phase, Run, Status
from hotlap.source import Script, parsed
from tests.benchmark_files import benchmark
from tests.conformance.recorded import awkward_runs, machines
from tests.rule_runs import firing, gpu_machine, healthy, healthy_runs, left_off, run_of_shares
from tests.sample_runs import loader, machine, optimizer, run_with

every_rule = pytest.mark.parametrize("code", rules.ALL)

DIAGNOSIS = sorted((Path(__file__).parents[2] / "benchmarks" / "diagnosis").glob("*/*.py"))

# Costs that are estimates in absolute units of time (a launch, a page fault, the price of a call of a device).
ABSOLUTE = {"cpu-with-idle-gpu", "memory-growth", "too-small-for-gpu"}


def machine_for(code: str) -> Machine:
    return gpu_machine() if code == "cpu-with-idle-gpu" else machine()


@cache
def found_in(code: str, *, step_s: float = 0.01) -> Finding:
    finding = rules.ALL[code](firing(code, step_s=step_s), machine_for(code))
    assert finding is not None
    return finding


@every_rule
def test_has_one_name_in_all_its_spellings(code: str) -> None:
    assert rules.ALL[code].__module__ == f"hotlap.rules.{code.replace('-', '_')}"


@every_rule
def test_teaches_what_why_and_by_example(code: str) -> None:
    text = importlib.import_module(rules.ALL[code].__module__).__doc__ or ""
    assert text.startswith(f"{code}: ")
    assert re.search(r"^What it says: .+^Why it .+: .+^Example: .+^Risk: .+", text, re.MULTILINE | re.DOTALL)


@every_rule
def test_shows_its_remedy_in_a_few_lines_of_plain_pytorch(code: str) -> None:
    before, after = benchmark("pages.py").example(rules.EXPLANATIONS[code])
    assert before and after and before != after
    for lines in (before, after):
        assert len(lines.splitlines()) <= 8 and max(map(len, lines.splitlines())) <= 96
        assert "hotlap" not in lines
        if not lines.startswith("$ "):
            ast.parse(lines)
    assert before.startswith("$ ") == after.startswith("$ ")


@every_rule
def test_says_what_its_remedy_may_change(code: str) -> None:
    (found,) = (one for one in rules.check(firing(code), machine_for(code)) if one.code == code)
    assert found.risk.endswith(".") and "\n" not in found.risk and len(found.risk) < 130


@every_rule
def test_fires_on_its_fixture_with_the_code_it_is_known_by(code: str) -> None:
    assert found_in(code).code == code


@every_rule
def test_comes_first_on_its_fixture_or_last_as_advice(code: str) -> None:
    found = rules.check(firing(code), machine_for(code))
    if code != "compute-bound":  # the model's own work is no fault: it stands behind all that costs something
        found = tuple(one for one in found if one.code != "compute-bound")
    place = -1 if found_in(code).advice else 0
    assert found[place].code == code, [(finding.code, finding.cost_s) for finding in found]
    assert not found[0].advice or all(one.advice for one in found), "what was measured stands in front"


@every_rule
def test_says_where_to_change_what(code: str) -> None:
    finding = found_in(code)
    if finding.advice:
        assert finding.where or finding.environment or finding.after, "advice is something to do"
    assert bool(finding.where) == bool(finding.before) or not finding.before
    assert finding.after != finding.before or not finding.after


def shown(script: Script) -> Iterator[Finding]:
    """With code, on a script of that text: what stands in it, and a pass in vain at a call of each line."""
    sources = {script.path: script.sha256}
    for code in ("debug-left-on", "double-precision"):
        yield from filter(None, [rules.ALL[code](replace(firing(code), sources=sources), None)])
    run = firing("wasted-forward")
    for call in {call.lineno: call for call in script.all_calls}.values():
        span = {"end_line": call.end_lineno or 0, "col": call.col_offset, "end_col": call.end_col_offset or 0}
        seen = replace(run.sightings[0], path=script.path, line=call.lineno, text="...", detail=span)
        yield from filter(None, [rules.ALL["wasted-forward"](replace(run, sources=sources, sightings=(seen,)), None)])


@pytest.mark.parametrize("path", DIAGNOSIS, ids=lambda path: path.stem)
def test_a_script_with_the_code_that_is_shown_runs_as_far_as_its_names_tell(path: Path) -> None:
    text = path.read_text()
    script = parsed(str(path), sha256(text.encode()).hexdigest(), text)
    assert script is not None
    for finding in shown(script):
        if finding.before and finding.after:
            margin = next(" " * n for n in range(0, 40, 4) if f"\n{indent(finding.before, ' ' * n)}\n" in text)
            before, after = (f"\n{indent(code, margin)}\n" for code in (finding.before, finding.after))
            edited = text.replace(before, after, 1)
            assert edited != text
            compile(edited, str(path), "exec")
            assert script.names.keys() <= Script("", "", edited, ast.parse(edited)).names.keys()
            assert edited.count("return ") == text.count("return ")


@pytest.mark.parametrize("name", healthy_runs())
def test_a_healthy_training_is_found_compute_bound_and_nothing_else(name: str) -> None:
    assert [finding.code for finding in rules.check(healthy_runs()[name], machine())] == ["compute-bound"]


@every_rule
def test_the_evidence_is_a_sentence_with_numbers(code: str) -> None:
    evidence = found_in(code).evidence
    assert evidence.endswith(".")
    assert "\n" not in evidence
    assert re.search(r"\d(\.\d+)? (us|ms|s)\b", evidence), "how long"
    assert re.search(r"\d%", evidence), "how much of the step"


@every_rule
def test_cost_and_share_say_the_same(code: str) -> None:
    run = firing(code)
    finding = found_in(code)
    assert 0 <= finding.share <= 1
    assert finding.cost_s == pytest.approx(finding.share * sum(run.step_s) / len(run.step_s))


@every_rule
def test_it_names_levers_that_exist(code: str) -> None:
    named = found_in(code).try_levers
    assert set(named) <= {kind.name for kind in levers.ALL}
    assert len(set(named)) == len(named)


@pytest.mark.parametrize("code", sorted(set(rules.ALL) - ABSOLUTE))
@given(scale=st.floats(1e-7, 1e4))
@settings(max_examples=20)
def test_judges_the_share_not_the_speed_of_the_machine(code: str, scale: float) -> None:
    assert found_in(code, step_s=scale).share == pytest.approx(found_in(code).share, rel=1e-6)


@every_rule
def test_what_was_not_measured_is_not_judged(code: str) -> None:
    bare = Run(status=Status.SILENT)
    assert rules.ALL[code](bare, machine_for(code)) is None
    assert rules.ALL[code](replace(bare, phase_s=dict.fromkeys(Phase)), None) is None


@pytest.mark.parametrize("name", awkward_runs())
def test_every_rule_survives_every_run(name: str) -> None:
    for check, where in product(rules.ALL.values(), (None, gpu_machine(), *machines().values())):
        finding = check(awkward_runs()[name], where)
        assert finding is None or math.isfinite(finding.cost_s)


@every_rule
def test_survives_a_run_of_one_step_of_no_length(code: str) -> None:
    run = replace(firing(code), step_s=(0.0,), phase_s={phase: (0.0,) for phase in Phase}, step_index=(0,))
    finding = rules.ALL[code](run, machine_for(code))
    assert finding is None or finding.cost_s == 0


@given(
    parts=st.fixed_dictionaries(
        {phase: st.floats(0, 1) for phase in (Phase.INPUT, Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER, Phase.OTHER)}
    ).filter(lambda parts: sum(parts.values()) > 0.1)
)
@settings(max_examples=100)
def test_findings_come_costliest_first_and_never_cost_more_than_the_step(parts: dict[Phase, float]) -> None:
    run = replace(run_with(phases=parts, num_steps=3), loaders=(loader(),), optimizers=(optimizer(),))
    found = rules.check(run)
    costs = [finding.cost_s for finding in found]
    assert costs == sorted(costs, reverse=True)
    assert sum(costs) <= run.step_s[0] * (1 + 1e-9), "the phases are disjoint, and so is what the rules say of them"
    assert len({finding.code for finding in found}) == len(found)


def test_compute_bound_is_said_only_where_there_is_nothing_to_mend() -> None:
    slow_input = {Phase.INPUT: 0.2, Phase.FORWARD: 0.3, Phase.BACKWARD: 0.5}
    assert [finding.code for finding in rules.check(run_of_shares(slow_input))] == ["input-bound"]


@pytest.mark.parametrize(("cause", "explained"), [(c, e) for c, found in rules.EXPLAINS.items() for e in sorted(found)])
def test_what_explains_and_what_is_explained_are_rules(cause: str, explained: str) -> None:
    assert {cause, explained} <= set(rules.ALL)
    assert cause not in rules.EXPLAINS.get(explained, ()), "two that explain each other would both vanish"


def test_a_cause_takes_the_place_of_what_it_explains() -> None:
    many_calls, debugging = firing("launch-bound"), firing("debug-left-on")
    run = replace(debugging, calls=many_calls.calls)
    assert [finding.code for finding in rules.check(many_calls)] == ["launch-bound"]
    assert [finding.code for finding in rules.check(run)] == ["debug-left-on"]


def test_a_cause_that_accounts_for_little_leaves_the_other_standing() -> None:
    debugging = firing("debug-left-on")
    (what_if,) = debugging.what_ifs
    cheap = (left_off(what_if.setting, what_if.now_s, without_s=[0.95 * what_if.now_s] * 5),)
    run = replace(firing("launch-bound"), switches=debugging.switches, what_ifs=cheap)
    assert [finding.code for finding in rules.check(run)] == ["launch-bound", "debug-left-on"]


def test_the_healthy_run_was_looked_at_in_full() -> None:
    run = healthy()
    assert None not in (run.calls, run.switches, run.cpu, run.shapes, run.operators)
    assert run.memory and run.what_ifs

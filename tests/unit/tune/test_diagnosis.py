"""hotlap.tune.diagnosis: a finding names the levers that can be tried for it, and no other."""

from dataclasses import replace
from pathlib import Path

from hotlap import rules
from hotlap.record import Finding, LoaderFacts, Phase, Run
from hotlap.tune.diagnosis import findings_of
from tests.conformance.recorded import SCRIPTS, run_of
from tests.sample_runs import machine

SCRIPT = next(path for path in SCRIPTS if "DataLoader(" in path.read_text())


def starved(path: Path, **facts: object) -> Run:
    """A run of the script that waits for its batches; `facts` of its loader."""
    run = run_of(path)
    (loader,) = run.loaders
    steps = len(run.step_s)
    phases = {Phase.INPUT: 0.008, Phase.FORWARD: 0.001, Phase.BACKWARD: 0.0008, Phase.OPTIMIZER: 0.0002}
    served: LoaderFacts = replace(loader, **facts)  # type: ignore[arg-type]
    return replace(
        run,
        step_s=(0.01,) * steps,
        phase_s={phase: (phases.get(phase, 0.0),) * steps for phase in run.phase_s},
        loaders=(served,),
    )


def input_bound(findings: tuple[Finding, ...]) -> Finding:
    (found,) = (finding for finding in findings if finding.code == "input-bound")
    return found


def test_what_can_be_tried_stays_in_its_order() -> None:
    run = starved(SCRIPT)
    named = input_bound(rules.check(run, machine())).try_levers
    kept = input_bound(findings_of(run, machine())).try_levers
    assert "workers" in kept
    assert list(kept) == [name for name in named if name in kept]


def test_what_the_lever_itself_refuses_is_not_named(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT.read_text().replace("DataLoader(", "make_loader("))
    run = replace(starved(path), loaders=starved(SCRIPT).loaders)
    assert input_bound(rules.check(run, machine())).try_levers
    found = input_bound(findings_of(run, machine()))
    assert found.try_levers == ()
    assert replace(found, try_levers=input_bound(rules.check(run, machine())).try_levers) in rules.check(run, machine())


def test_without_the_source_nothing_is_known_to_be_refused(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT.read_text())
    run = starved(path)
    path.write_text("changed = True\n")
    assert findings_of(run, machine()) == rules.check(run, machine())
    path.unlink()
    assert findings_of(run, machine()) == rules.check(run, machine())

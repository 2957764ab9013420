"""Profilers on real scripts: what they see, and that training goes on as if they were not there."""

import subprocess
import sys
from pathlib import Path

import pytest

from hotlap.launch import WholeRun
from hotlap.record import Phase, Plan, Status
from hotlap.tune import FULL
from tests.e2e.running import Forks

pytestmark = pytest.mark.e2e

SCRIPTS = Path(__file__).with_name("scripts")
PROFILERS = ("operators", "syncs", "lines")


def test_operators_and_lines_of_a_plain_loop(forks: Forks) -> None:
    found = forks("plain.py", "100000", steps=20, profilers=PROFILERS)
    assert found.status is Status.COMPLETE
    assert found.notes == ()
    assert found.output == ""
    assert len(found.step_s) == 20
    window = found.operators
    assert window is not None
    assert window.complete
    assert window.num_steps == 5
    calls = {one.name: one.per_step for one in window.operators}
    assert calls["aten::addmm"] == 2
    assert 20 < window.num_calls < 200
    assert sum(one.self_s for one in window.operators) <= window.wall_s
    # Forward 2 * 16 * (20 * 32 + 32 * 3); backward twice that, without the input's gradient.
    assert window.flops == 3 * 2 * 16 * (20 * 32 + 32 * 3) - 2 * 16 * 20 * 32
    assert window.moved_bytes is not None
    assert window.dispatch_s is not None
    assert window.dispatch_s > 1e-7
    assert window.num_kernels is None
    assert {line.phase for line in found.hot_lines} >= {Phase.INPUT, Phase.FORWARD, Phase.BACKWARD}
    assert all(line.path == str(SCRIPTS / "forked.py") for line in found.hot_lines)
    assert not any(line.inside for line in found.hot_lines if line.phase is Phase.INPUT), "the data set is torch's"
    costs_s = [line.step_s for line in found.hot_lines]
    assert costs_s == sorted(costs_s, reverse=True)
    assert any(line.text == "loss.backward()" for line in found.hot_lines)
    assert found.sightings == ()
    assert [loader.deterministic for loader in found.loaders] == [True], "some items were looked at behind the windows"


def test_what_is_seen_of_a_long_validation_is_in_no_step(forks: Forks) -> None:
    found = forks("validates_longer.py", steps=30, profilers=("operators", "calls", "input", "lines"))
    assert found.status is Status.COMPLETE
    assert found.notes == ()
    assert found.num_validations
    assert found.hot_lines[0].text == "time.sleep(0.001)  # trains"
    validating = [line for line in found.hot_lines if line.text.endswith("# validates")]
    assert sum(line.step_s for line in validating) < found.hot_lines[0].step_s / 10
    assert found.operators is not None
    calls = {one.name: one.per_step for one in found.operators.operators}
    assert calls["aten::addmm"] == 1
    assert found.calls is not None
    assert found.calls.phases[Phase.INPUT].calls < 20, "two items, and not those of the validation"


def test_a_script_that_profiles_itself_is_counted_without_a_profiler(forks: Forks) -> None:
    found = forks("profiled.py", steps=20, profilers=("operators",))
    assert found.status is Status.COMPLETE
    window = found.operators
    assert window is not None
    assert not window.complete
    assert "profiler of its own" in (window.why_not or "")
    assert window.dispatch_s is None
    assert window.flops


def test_compiled_modules_stay_compiled_and_are_not_half_counted(forks: Forks) -> None:
    found = forks("compiled_module.py", steps=20, profilers=PROFILERS)
    assert found.status is Status.COMPLETE
    assert found.notes == ()
    assert found.operators is not None
    assert (found.operators.flops, found.operators.moved_bytes) == (None, None)
    assert found.hot_lines


def test_training_after_the_windows_goes_on_to_its_own_end(forks: Forks) -> None:
    found = forks("tells.py", "8", warmup=5, profilers=("operators",), whole=True)
    assert found.operators is not None and found.operators.complete
    assert found.num_updates[-1] == 1
    assert len(found.step_s) > 50, "and is recorded again"
    assert [loader.deterministic for loader in found.loaders] == [None], "no item is made that it has not asked for"


def test_a_training_for_real_notices_nothing_of_its_windows(capfd: pytest.CaptureFixture[str]) -> None:
    """Every loss to the last bit, with workers that are forked while somebody looks."""
    command = (sys.executable, str(SCRIPTS / "tells.py"), "8")
    plain = subprocess.run(command, capture_output=True, text=True, check=False, timeout=400)
    plan = Plan(command=command, cwd=str(SCRIPTS), out="", seed=None, whole=True, warmup=5, profilers=FULL)
    with WholeRun(plan) as whole:
        code = whole.run(looked=lambda: None)
        found = whole.outcome(code)
    out, err = capfd.readouterr()
    assert (out, err, code) == (plain.stdout, plain.stderr, plain.returncode)
    assert code == 3
    assert found.notes == ()
    assert found.operators is not None and found.operators.complete
    assert found.calls is not None and found.hot_lines
    assert found.long is not None
    assert found.what_ifs == ()

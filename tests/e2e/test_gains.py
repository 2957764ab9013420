"""Studies of real scripts in which a gain is to be found. The one that gates gains twelve times: no load hides that."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hotlap import native
from hotlap.launch.starting import can_fork
from hotlap.record import State, Study, load
from tests.e2e.running import hotlap, names, place

pytestmark = pytest.mark.e2e


@pytest.mark.timeout(1800)
def test_a_study_of_a_script_that_nobody_changed(tmp_path: Path) -> None:
    """A slow data set in the training process: found, cached, proved, patched, applied, and taken back."""
    script = place("late_items.py", tmp_path)
    # As many steps as all that is compared beforehand: the whole training is run eight times and more.
    script.write_text(script.read_text().replace("range(40)", "range(24)"))
    before = script.read_bytes()
    plain = subprocess.run([sys.executable, script.name], cwd=tmp_path, capture_output=True, text=True, check=True)
    done = hotlap(
        "tune",
        "--budget",
        "1200s",
        "--levers",
        "cached-dataset",
        "--json",
        "-",
        script.name,
        cwd=tmp_path,
        timeout=1500,
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["findings"][0]["code"] == "input-bound"
    assert "of that is making the items" in document["findings"][0]["evidence"], "seen as closely as by measure"
    assert document["ceilings"][0]["name"] == "input"
    assert [lever["name"] for lever in document["result"]["levers"]] == ["cached-dataset"], done.stderr
    assert document["result"]["verdict"] == "UNHARMED"
    assert document["result"]["speedup"]["low"] > 1.02
    assert len(document["result"]["whole_s"]) >= 4, "a training of seconds is run whole"
    assert "bit-equal" in document["result"]["why"]
    assert {trial["kind"] for trial in document["trials"]} >= {"lever", "patch"}
    for shown in ("input-bound", "Upper bounds", "accepted", "passes", "+++ b/late_items.py", "hotlap apply"):
        assert shown in done.stderr, done.stderr
    assert "\x1b" not in done.stderr
    assert script.read_bytes() == before
    assert names(tmp_path) == {"late_items.py", ".hotlap"}
    assert (tmp_path / ".hotlap" / ".gitignore").read_text() == "*\n"
    (folder,) = (path for path in (tmp_path / ".hotlap").iterdir() if path.is_dir())
    study = load(folder / "study.json", Study)
    assert study.state is State.COMPLETE
    _assert_trials_are_forks_and_the_confirmation_is_not(study)
    assert "<svg" in (folder / "report.html").read_text()

    assert "leaves no lever" in hotlap("apply", "--without", "hotlap", cwd=tmp_path).stderr, "all of it needs hotlap"
    assert "needs hotlap when it runs: it calls cached." in hotlap("apply", cwd=tmp_path).stdout
    assert "cached(" in script.read_text()
    patched = subprocess.run([sys.executable, script.name], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert patched.stdout == plain.stdout  # it prints its losses
    assert hotlap("apply", "--revert", cwd=tmp_path).returncode == 0
    assert script.read_bytes() == before


def _assert_trials_are_forks_and_the_confirmation_is_not(study: Study) -> None:
    if not can_fork((sys.executable, "train.py")):
        return
    tried = [run for trial in study.trials if trial.kind == "lever" for run in trial.runs if run.step_s]
    assert not study.baseline[0].forked
    assert all(run.forked for run in study.baseline[1:])
    assert tried
    assert all(run.forked for run in tried)
    assert study.after is not None
    assert not study.after.forked
    assert not any("imports anew" in warning for warning in study.warnings)


@pytest.mark.slow
def test_a_neural_ode_with_torchdiffeq_runs_natively(tmp_path: Path) -> None:
    """The script that nobody changed becomes many times faster, passes the gate, and so does its patch of one line."""
    if native.core().module is None:
        pytest.skip(native.core().why_not)
    script = place("lorenz.py", tmp_path)
    done = hotlap(
        "tune", "--budget", "420s", "--levers", "native-ode", "--json", "-", script.name, cwd=tmp_path, timeout=580
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)["result"]
    assert [lever["name"] for lever in result["levers"]] == ["native-ode"], done.stderr
    assert result["verdict"] == "UNHARMED"
    assert result["speedup"]["low"] > 5
    assert hotlap("apply", cwd=tmp_path).returncode == 0
    assert "\nnative_odeint()\n" in script.read_text()


@pytest.mark.slow
def test_larger_batches_on_request_are_judged_by_the_time_to_a_loss(tmp_path: Path) -> None:
    script = place("small_batches.py", tmp_path)
    before = script.read_bytes()
    done = hotlap(
        "tune", "--levers", "tf32", "--allow", "batch-size", "--json", "-", script.name, cwd=tmp_path, timeout=500
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    recipe = document["recipe"]
    sizes = [point["size"] for point in recipe["curve"]]
    assert sizes[:4] == [8, 16, 32, 64]
    assert recipe["curve"][3]["samples_per_s"] > 1.5 * recipe["curve"][0]["samples_per_s"]
    assert recipe["accepted"], recipe["why"]
    assert 8 < recipe["size"] <= sizes[-1]
    assert recipe["rates"] == {"Adam": pytest.approx((recipe["size"] / 8) ** 0.5)}
    assert recipe["speedup"]["mid"] > 1
    assert "Worth trying: batch size" in done.stderr
    assert document["patch"] is None
    assert script.read_bytes() == before

"""`hotlap measure` and `hotlap tune` from end to end on the simulated GPU: they come through, and name the cause."""

import os
import shutil
from pathlib import Path

import pytest

from hotlap.record import State, Study, Verdict, load
from tests.e2e.running import hotlap

HERE = Path(__file__).parent

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(shutil.which("g++") is None, reason="the simulated GPU is compiled"),
]


def study_of(command: str, *words: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    """That the command leaves, of a script of ours copied to `folder`; the script is the last word."""
    shutil.copy(HERE / "scripts" / words[-1], folder)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((*filter(None, [os.environ.get("PYTHONPATH")]), str(HERE.parent))))
    done = hotlap(command, "--json", "study.json", *words, cwd=folder, timeout=1400)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    study = load(folder / "study.json", Study)
    assert study.state is State.COMPLETE
    assert (study.baseline[0].device, study.baseline[0].device_type) == ("simulated GPU", "sim")
    return study


def line_of(text: str, script: str) -> int:
    """The first line of a script of ours that holds the text."""
    lines = (HERE / "scripts" / script).read_text().splitlines()
    return next(number for number, line in enumerate(lines, start=1) if text in line)


def test_measure_names_the_line_that_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = study_of("measure", "--quick", "sync.py", folder=tmp_path, monkeypatch=monkeypatch)
    line = line_of("total += y.item()", "sync.py")
    found = {finding.code: finding for finding in study.findings}
    assert f"Tensor.item in line {line} of sync.py" in found["sync-bound"].evidence
    assert {one.name for one in study.ceilings} >= {"launches"}


def test_tune_tries_what_helps_there_and_refuses_levers_for_other_devices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    levers = "cached-dataset,tf32,cudnn-benchmark,compile"
    study = study_of(
        "tune", "--budget", "10m", "--levers", levers, "input.py", folder=tmp_path, monkeypatch=monkeypatch
    )
    assert study.baseline[0].device_phase_s, "the device's clock was read"
    assert "input-bound" in {finding.code for finding in study.findings}
    trials = {lever["name"]: trial for trial in study.trials for lever in trial.levers}
    assert not trials["cached-dataset"].why.startswith("Not tried")
    assert trials["cached-dataset"].verdict is not Verdict.HARMED
    refused = [trials[name].why for name in ("tf32", "cudnn-benchmark", "compile")]
    assert all(why.endswith("sim.") for why in refused), refused

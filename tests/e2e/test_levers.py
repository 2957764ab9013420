"""`hotlap tune` on scripts that hold what one lever is for."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from hotlap import levers, source
from hotlap.record import Study, decode
from hotlap.search import facts
from tests.e2e.running import hotlap, place

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def study(name: str, folder: Path, *, levers: str, budget: str = "300s") -> dict[str, Any]:
    """What `hotlap tune` finds of a script, with some levers only."""
    place(name, folder)
    words = ["tune", "--budget", budget, "--levers", levers, "--json", "-", name]
    done = hotlap(*words, cwd=folder, timeout=500)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def patch_of(found: dict[str, Any], folder: Path) -> str:
    """The diff that the first trial's levers make of the script, whether or not their gain stood out of the noise."""
    known = decode(json.dumps(found).encode(), Study)
    edits = [edit for spec in known.trials[0].levers for edit in levers.from_spec(spec).edits(facts(known))]
    return source.patch(edits, root=folder).diff


def test_a_compiled_model_is_timed_apart_from_its_compiling(tmp_path: Path) -> None:
    found = study("elementwise.py", tmp_path, levers="compile")
    trial = found["trials"][0]
    assert trial["levers"][0] == {"name": "compile", "mode": "default", "dynamic": False}
    assert trial["log_ratios"], trial["why"]
    assert trial["verdict"] != "HARMED"
    # A trial of fewer than three processes has no interval; each of them saw a ratio.
    told = "seconds of compiling would make hundreds of steps of 1 ms far slower"
    assert min(trial["log_ratios"]) > math.log(0.2), told
    assert "+model.compile(" in patch_of(found, tmp_path)


def test_a_model_that_cannot_be_compiled_is_a_state_with_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", str(_broken_compiler(tmp_path)))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    found = study("elementwise.py", tmp_path, levers="compile", budget="120s")
    assert found["result"]["levers"] == []
    assert found["trials"][0]["why"].startswith(("It could not be tried: crashed", "Not tried."))


def _broken_compiler(folder: Path) -> Path:
    path = folder / "g++"
    path.write_text("#!/bin/sh\nexit 1\n")
    path.chmod(0o755)
    return path


def test_packed_sequences_are_computed_padded(tmp_path: Path) -> None:
    found = study("packed.py", tmp_path, levers="padded-recurrent")
    trial = found["trials"][0]
    assert trial["levers"] == [{"name": "padded-recurrent"}]
    assert trial["log_ratios"], trial["why"]
    assert trial["verdict"] != "HARMED", trial["why"]
    assert "+padded_recurrent()" in patch_of(found, tmp_path)


def test_what_is_not_on_is_not_tried(tmp_path: Path) -> None:
    found = study("in_vain.py", tmp_path, levers="padded-recurrent,channels-last", budget="60s")
    reasons = {trial["levers"][0]["name"]: trial["why"] for trial in found["trials"]}
    assert reasons["padded-recurrent"].startswith("Not tried. ")
    assert found["result"]["levers"] == []

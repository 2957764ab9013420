"""Pythons that a command starts, with hotlap in their environment: they do what they do without it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hotlap.launch.outcome import silent
from hotlap.launch.workplace import probe_environment
from hotlap.record import Plan, save

SHOWN = """
import sys
own = sys.modules.get("sitecustomize")
print(getattr(own, "__file__", own), getattr(own, "RAN", None), sys.modules.get("usercustomize") is not None)
print(sys.path[1:], [getattr(finder, "__name__", type(finder).__name__) for finder in sys.meta_path])
"""

WELL = "RAN = __name__"
OWN = {
    "none": None,
    "runs": WELL,
    "fails": "raise ValueError('no such thing')",
    "needs what is not there": "import no_such_module",
    "fails as if there were none": "raise ModuleNotFoundError(name='sitecustomize')",
}


def start(folder: Path, environment: dict[str, str], *words: str, python: str = sys.executable) -> tuple[int, str, str]:
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("HOTLAP", "PYTHON"))}
    done = subprocess.run(
        [python, *words, "-c", SHOWN],
        cwd=folder,
        env=bare | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def planned(folder: Path) -> Path:
    out = folder / "out"
    out.mkdir()
    save(Plan(command=("train.py",), cwd=str(folder), out=str(out)), out / "plan.json")
    return out


def same_with_and_without(
    folder: Path, out: Path, monkeypatch: pytest.MonkeyPatch, *words: str, python: str = sys.executable
) -> str:
    """What it printed, which is the same with hotlap in its environment."""
    (folder / "own").mkdir(exist_ok=True)
    monkeypatch.setenv("PYTHONPATH", str(folder / "own"))
    without = start(folder, {"PYTHONPATH": str(folder / "own")}, *words, python=python)
    assert start(folder, probe_environment(out, marker=out.name), *words, python=python) == without
    return without[1] + without[2]


@pytest.mark.parametrize("own", OWN)
def test_the_users_own_sitecustomize_runs_as_python_runs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str
) -> None:
    (tmp_path / "own").mkdir()
    text = OWN[own]
    if text is not None:
        (tmp_path / "own" / "sitecustomize.py").write_text(text)
    said = same_with_and_without(tmp_path, planned(tmp_path), monkeypatch)
    assert ("own/sitecustomize.py sitecustomize" in said) == (own == "runs")
    assert ("ValueError: no such thing" in said) == (own == "fails")


@pytest.mark.parametrize("how", ["deleted", "empty", "of another version", "no file"])
def test_a_python_that_cannot_have_the_probe_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    out = planned(tmp_path)
    plan = out / "plan.json"
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text(WELL)
    told = True
    if how == "deleted":
        plan.unlink()
        out.rmdir()
        told = False
    elif how == "empty":
        plan.write_text("")
    elif how == "of another version":
        plan.write_text(json.dumps(json.loads(plan.read_text()) | {"schema": 99}))
    else:
        plan.unlink()
        plan.mkdir()
    said = same_with_and_without(tmp_path, out, monkeypatch)
    assert "own/sitecustomize.py sitecustomize" in said
    assert (out / "no-probe").exists() is told
    if told:
        assert sys.executable in (out / "no-probe").read_text()


@pytest.mark.parametrize("words", ["-I", "-E", "-P", "-s", "-X dev", "-W error", "-O"])
def test_pythons_own_options_mean_what_they_mean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text(WELL)
    out = planned(tmp_path)
    same_with_and_without(tmp_path, out, monkeypatch, *words.split())
    assert not (out / "no-probe").exists()


def test_without_site_there_is_no_sitecustomize(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    code, said, error = start(tmp_path, probe_environment(planned(tmp_path), marker="run"), "-S")
    assert (code, error) == (0, "")
    assert said.startswith("None None False")


def test_a_python_of_another_environment_runs_and_its_usercustomize_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = getattr(sys, "_base_executable", sys.executable)
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    folder = tmp_path / "base" / "lib" / version / "site-packages"
    folder.mkdir(parents=True)
    (folder / "usercustomize.py").write_text("")
    monkeypatch.setenv("PYTHONUSERBASE", str(tmp_path / "base"))
    bare = {"PYTHONUSERBASE": str(tmp_path / "base")}
    out = planned(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    without = start(tmp_path, bare, python=python)
    assert start(tmp_path, bare | probe_environment(out, marker=out.name), python=python) == without
    assert without[1].startswith("None None True")
    assert "No module named 'hotlap'" in (out / "no-probe").read_text()


@pytest.mark.parametrize("locale", ["C.UTF-8", "POSIX"])
def test_a_python_in_a_folder_whose_name_is_not_utf8_runs_its_own_sitecustomize(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locale: str
) -> None:
    monkeypatch.setenv("LC_ALL", locale)
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/runs-\xe9")
    os.mkdir(folder)
    python = f"{folder}/python"
    os.symlink(sys.executable, python)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text(WELL)
    out = planned(tmp_path)
    (out / "plan.json").write_text("")
    said = same_with_and_without(tmp_path, out, monkeypatch, python=python)
    assert "own/sitecustomize.py sitecustomize" in said
    assert "hotlap" in silent(out)

"""Which runs are forks of a template, and which are started afresh."""

import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hotlap.launch.reaper import end_all
from hotlap.launch.starting import VARIABLE, Forked, Starter, can_fork
from hotlap.launch.streams import StandardInput
from hotlap.launch.workplace import Workplace
from hotlap.record import Plan

pytestmark = pytest.mark.skipif(not can_fork((sys.executable, "a.py")), reason="templates are for Linux")

Started = Callable[..., list[tuple[bool, str]]]


def environment_of(plan: Plan) -> dict[str, str]:
    return {"OMP_NUM_THREADS": "1"} if plan.always else {}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The user's."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text("print('on disk')\n")
    return folder


@pytest.fixture
def plan(folder: Path) -> Plan:
    return Plan(command=(sys.executable, "train.py"), cwd=str(folder), out="")


@pytest.fixture
def starter(tmp_path: Path) -> Iterator[Starter]:
    base = tmp_path / "runs"
    base.mkdir()
    starter = Starter(
        environment_of, stdin=StandardInput(), base=base, templates=True, timeout_s=60.0, interrupted=lambda: False
    )
    yield starter
    starter.close()


def started(starter: Starter, *plans: Plan, environ: dict[str, str] | None = None) -> list[tuple[bool, str]]:
    """Runs at the same time: whether each was a fork, and what it printed. Their end is the end of a study's run, in
    which `environ` was set beside."""
    folders = tuple({plan.cwd for plan in plans})
    base = Path(plans[0].cwd).with_name("runs")
    places = [Workplace(plan, base=base, number=k, folders=folders) for k, plan in enumerate(plans)]
    found = []
    for place, process in zip(places, starter.start(places), strict=True):
        with process.stdout, process.stderr:
            printed = process.stdout.read().decode().strip()
        end_all(process.pid, place.marker)
        process.wait()
        spec = importlib.util.find_spec("colorsys")
        assert spec is not None
        record = {
            "command": list(place.plan.command), "modules": [("colorsys", spec.origin)], "users": [], "barred": [],
            "environ": {**place.environment({}), **(environ or {})}, "dlopenflags": sys.getdlopenflags(),
        }  # fmt: skip
        (place.out / "imports.json").write_text(json.dumps(record))
        starter.learn(place)
        if place.not_enclosed():
            pytest.skip(f"this system cannot cover a folder: {place.not_enclosed()}")
        place.remove()
        found.append((isinstance(process, Forked), printed))
    return found


AFRESH, FORK = (False, "on disk"), (True, "on disk")


def test_what_must_be_started_afresh_is(starter: Starter, plan: Plan, folder: Path) -> None:
    assert started(starter, plan) == [AFRESH], "what it imports is not known yet"
    assert started(starter, plan, plan) == [FORK, FORK]
    lever = replace(plan, always=({"name": "threads", "count": 1},))
    assert started(starter, plan, lever) == [AFRESH, AFRESH], "all start alike"
    assert started(starter, replace(plan, profilers=("memory",))) == [AFRESH]
    assert started(starter, replace(plan, afresh=True)) == [AFRESH]
    assert started(starter, replace(plan, command=(*plan.command, "other words"))) == [AFRESH]
    edited = replace(plan, replaced={str(folder / "train.py"): "print('edited')\n"})
    assert started(starter, edited) == [(True, "edited")]
    assert started(starter, plan) == [FORK]
    assert starter.why_afresh is None


def test_on_request_all_are(tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "1")
    (tmp_path / "runs").mkdir()
    starter = Starter(
        environment_of, stdin=StandardInput(), base=tmp_path / "runs", templates=True, timeout_s=60.0,
        interrupted=lambda: False,
    )  # fmt: skip
    assert [started(starter, plan) for _ in range(2)] == [[AFRESH], [AFRESH]]


def test_a_script_that_sets_what_libraries_read_is_started_afresh(starter: Starter, plan: Plan) -> None:
    assert "OMP_NUM_THREADS" not in os.environ
    assert started(starter, plan, environ={"OMP_NUM_THREADS": "1"}) == [AFRESH]
    assert started(starter, plan) == [AFRESH]
    assert starter.why_afresh == "the script sets OMP_NUM_THREADS in its environment"

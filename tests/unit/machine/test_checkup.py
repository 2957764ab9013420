"""When figures are measured, when they are kept, and what hides a failure; the child is a stand-in here."""

import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hotlap.machine import checkup as module
from hotlap.machine.checkup import checkup, key_of
from hotlap.machine.facts import Facts
from hotlap.machine.in_child import CannotMeasure
from hotlap.record import Checkup, Measured, TorchBuild, decode, encode, save
from tests.unit.machine.made_up import CARD, HEALTHY, WITH_GPU, figure

MEASURED = Measured(
    torch=TorchBuild(version="2.8.0+cpu", num_threads=16), figures=(figure("matmul", 1e12, variant="float32"),)
)


class Child:
    """Answers in place of the measuring process; counts how often it was asked."""

    def __init__(self, measured: Measured | None = MEASURED, *, stderr: str = "") -> None:
        self.measured = measured
        self.stderr = stderr
        self.commands: list[Sequence[str]] = []

    def __call__(self, command: Sequence[str], **_: Any) -> "subprocess.CompletedProcess[str]":
        self.commands.append(command)
        if self.measured is not None:
            save(self.measured, Path(command[command.index("hotlap.machine.measure") + 1]))
        return subprocess.CompletedProcess(command, 0 if self.measured else 1, stdout="", stderr=self.stderr)


@pytest.fixture
def child(monkeypatch: pytest.MonkeyPatch) -> Child:
    stand_in = Child()
    monkeypatch.setattr(module, "gather", lambda: HEALTHY)
    monkeypatch.setattr("hotlap.machine.in_child.subprocess.run", stand_in)
    return stand_in


def quietly(folder: Path, *, fresh: bool = False, quick: bool = False) -> Checkup:
    return checkup(folder=folder, fresh=fresh, quick=quick, doing=lambda _: None)


def test_figures_are_measured_once_and_kept(child: Child, tmp_path: Path) -> None:
    first = quietly(tmp_path)
    assert quietly(tmp_path) == first
    assert len(child.commands) == 1


def test_fresh_measures_again(child: Child, tmp_path: Path) -> None:
    quietly(tmp_path)
    quietly(tmp_path, fresh=True)
    assert len(child.commands) == 2


def test_quick_figures_do_not_stand_for_thorough_ones_but_the_other_way_round(child: Child, tmp_path: Path) -> None:
    quietly(tmp_path, quick=True)
    assert child.commands[-1][-1] == "quick"
    assert not quietly(tmp_path).quick
    assert not quietly(tmp_path, quick=True).quick
    assert len(child.commands) == 2


def test_a_damaged_file_is_measured_anew(child: Child, tmp_path: Path) -> None:
    quietly(tmp_path)
    (path,) = tmp_path.glob("machine-*.json")
    path.write_text("{}")
    quietly(tmp_path)
    assert len(child.commands) == 2


def test_what_is_wrong_is_looked_at_anew(child: Child, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert quietly(tmp_path).complaints == ()
    monkeypatch.setattr(module, "gather", lambda: replace(HEALTHY, load=99.0))
    assert [complaint.code for complaint in quietly(tmp_path).complaints] == ["busy-machine"]
    assert len(child.commands) == 1


def test_a_cache_that_cannot_be_written_costs_only_time(child: Child, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert quietly(tmp_path / "file" / "folder").figures == MEASURED.figures


@pytest.mark.parametrize(
    "other",
    [
        replace(HEALTHY, machine=replace(HEALTHY.machine, processor="another")),
        replace(HEALTHY, cores=replace(HEALTHY.cores, quota=2.0)),
        replace(HEALTHY, environment={"OMP_NUM_THREADS": "1"}),
        WITH_GPU,
        replace(WITH_GPU, driver=replace(WITH_GPU.driver, gpus=(replace(CARD, power_limit_w=400.0),))),  # type: ignore[type-var]
    ],
)
def test_other_hardware_and_other_settings_have_another_key(other: Facts) -> None:
    assert key_of(other) != key_of(HEALTHY)


def test_what_changes_by_the_minute_leaves_the_key_alone() -> None:
    busier = replace(
        HEALTHY, load=7.0, machine=replace(HEALTHY.machine, available_bytes=1), torch=None, figures=MEASURED.figures
    )
    assert key_of(busier) == key_of(HEALTHY)


def test_a_child_that_fails_is_told_with_its_last_line(child: Child, tmp_path: Path) -> None:
    child.measured, child.stderr = None, "Traceback ...\nImportError: libcudart.so.12: cannot open\n"
    with pytest.raises(CannotMeasure, match=r"libcudart\.so\.12: cannot open"):
        quietly(tmp_path)


def test_noise_and_failures_are_noted(child: Child, tmp_path: Path) -> None:
    wild = replace(MEASURED.figures[0], spread=0.4)
    child.measured = replace(MEASURED, figures=(wild,), failures=("Measuring cuda:0 ended early: out of memory",))
    notes = quietly(tmp_path).notes
    assert "out of memory" in notes[0]
    assert "40%" in notes[1]


def test_a_checkup_survives_the_way_through_json(child: Child, tmp_path: Path) -> None:
    found = quietly(tmp_path)
    assert decode(encode(found), Checkup) == found

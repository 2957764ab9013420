"""Figures, what is wrong, and what hides a failure; the child is a stand-in here."""

import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hotlap.errors import HotlapError
from hotlap.machine import checkup as module
from hotlap.machine.checkup import checkup
from hotlap.record import Checkup, Measured, TorchBuild, decode, encode, save
from tests.unit.machine.made_up import HEALTHY, figure

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


def quietly(*, quick: bool = False) -> Checkup:
    return checkup(quick=quick, doing=lambda _: None)


@pytest.mark.parametrize("quick", [False, True])
def test_figures_are_those_of_the_child(quick: bool, child: Child) -> None:
    found = quietly(quick=quick)
    assert (found.figures, found.torch, found.quick) == (MEASURED.figures, MEASURED.torch, quick)
    assert (child.commands[-1][-1] == "quick") is quick


def test_what_is_wrong_is_told(child: Child, monkeypatch: pytest.MonkeyPatch) -> None:
    assert quietly().complaints == ()
    monkeypatch.setattr(module, "gather", lambda: replace(HEALTHY, load=99.0))
    assert [complaint.code for complaint in quietly().complaints] == ["busy-machine"]


def test_a_child_that_fails_is_told_with_its_last_line(child: Child) -> None:
    child.measured, child.stderr = None, "Traceback ...\nImportError: libcudart.so.12: cannot open\n"
    with pytest.raises(HotlapError, match=r"libcudart\.so\.12: cannot open"):
        quietly()


def test_noise_and_failures_are_noted(child: Child) -> None:
    wild = replace(MEASURED.figures[0], spread=0.4)
    child.measured = replace(MEASURED, figures=(wild,), failures=("Measuring cuda:0 ended early: out of memory",))
    notes = quietly().notes
    assert "out of memory" in notes[0]
    assert "40%" in notes[1]


def test_a_checkup_survives_the_way_through_json(child: Child) -> None:
    found = quietly()
    assert decode(encode(found), Checkup) == found

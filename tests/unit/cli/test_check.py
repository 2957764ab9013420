"""`hotlap check`: the exit code and the last line say what came of it; what cannot be checked is refused before."""

import json
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from hotlap import cli
from hotlap.cli import check, streams
from hotlap.record import Interval, Verdict
from hotlap.tune.checking import Check, Checked, Speed

FASTER = Checked(
    verdict=Verdict.UNHARMED,
    contract="exact",
    why="Losses are equal bit for bit over 79 steps.",
    speed=Speed.FASTER,
    step=Interval(low=1.9, mid=2.0, high=2.1),
    total=Interval(low=1.4, mid=1.5, high=1.6),
    limit=0.02,
)


@pytest.fixture(autouse=True)
def scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("before.py", "after.py"):
        (tmp_path / name).write_text("")
    return tmp_path


@pytest.mark.parametrize(
    ("verdict", "speed", "code", "says"),
    [
        (Verdict.UNHARMED, Speed.FASTER, 0, "the same training, and not slower."),
        (Verdict.UNHARMED, Speed.NOT_SLOWER, 0, "the same training, and not slower."),
        (Verdict.HARMED, Speed.FASTER, 10, "it does not train the same."),
        (Verdict.HARMED, Speed.INCONCLUSIVE, 10, "it does not train the same."),
        (Verdict.UNDECIDED, Speed.FASTER, 11, "inconclusive"),
        (Verdict.UNHARMED, Speed.INCONCLUSIVE, 11, "inconclusive"),
        (Verdict.UNHARMED, Speed.SLOWER, 12, "the same training, and slower."),
    ],
)
def test_what_came_of_it(
    verdict: Verdict,
    speed: Speed,
    code: int,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(check, "_checked", lambda _: replace(FASTER, verdict=verdict, speed=speed, warnings=("a\nb",)))
    assert cli.main(["check", "before.py", "after.py", "--lr", "1"]) == code
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "! a b"
    assert lines[-1].startswith("before.py -> after.py: ")
    assert says in lines[-1]


def test_figures_go_where_they_are_wanted(
    scripts: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(check, "_checked", lambda _: FASTER)
    assert cli.main(["check", "--json", "-", "before.py", "after.py"]) == 0
    assert json.loads(capsys.readouterr().out)["step"]["mid"] == 2.0
    assert cli.main(["check", "-q", "--json", "c.json", "before.py", "after.py"]) == 0
    assert capsys.readouterr().out == ""
    assert json.loads((scripts / "c.json").read_text())["speed"] == "faster"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interruption_ends_with_what_was_known(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Check, "run", lambda _: signal.raise_signal(number))
    monkeypatch.setattr(Check, "found", replace(FASTER, verdict=Verdict.UNDECIDED))
    monkeypatch.setattr(streams, "hung_up", lambda: None)
    assert cli.main(["check", "before.py", "after.py"]) == 128 + number
    *_, training, step, _, last = capsys.readouterr().out.splitlines()
    assert training == "training  inconclusive  (exact) Losses are equal bit for bit over 79 steps."
    assert step.startswith("step      faster        2.00x")
    by = "" if number == signal.SIGINT else f" by {number.name}"
    assert last == f"Interrupted{by}. This is what was known until then."


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["before.py", "none.py"], "There is no file none.py."),
        (["none.py", "after.py"], "There is no file none.py."),
        (["--max-regression", "much", "before.py", "after.py"], "--max-regression"),
        (["--budget", "0", "before.py", "after.py"], "--budget 0 is not a time"),
        (["--json", "no/place.json", "before.py", "after.py"], "there is no folder no"),
    ],
)
def test_what_cannot_be_checked(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", *words]) == 2
    assert says in capsys.readouterr().err

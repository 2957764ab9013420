"""`hotlap read`: what it prints, writes and refuses."""

import json
from pathlib import Path

import pytest

from hotlap import cli, read_trace
from hotlap.record import Study, load
from tests.unit.trace.test_reading import training


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return training(input_us=690).save(tmp_path / "trace.json.gz")


def test_it_says_what_the_device_waited_for(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["read", "trace.json.gz"]) == 0
    said = capsys.readouterr().out
    assert "1.00 ms a step  trace.json.gz\n  Of each step, costliest first: input-bound (69%)." in said
    assert "hotlap explain input-bound" in said
    assert "hotlap tune" not in said, "a trace cannot be run again"
    assert "over 5 steps on Some GPU" in said
    assert "If batches were free: " in said
    assert "for the loader" in said


def test_it_writes_what_is_asked_for_and_no_study(trace: Path, tmp_path: Path) -> None:
    words = ["--json", "s.json", "--html", "p.html", "--markdown", "p.md", "--gpu-timeline", "t.csv"]
    assert cli.main(["read", "trace.json.gz", *words]) == 0
    assert load(tmp_path / "s.json", Study).findings[0].code == "input-bound"
    assert "input-bound" in (tmp_path / "p.html").read_text()
    assert "input-bound" in (tmp_path / "p.md").read_text()
    name, value, _ = (tmp_path / "t.csv").read_text().splitlines()[1].split(",")
    assert name == "computation_time"
    assert float(value) == pytest.approx(1.5)
    assert not (tmp_path / ".hotlap").exists()


def test_json_alone_goes_to_standard_output(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["read", "trace.json.gz", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["findings"][0]["code"] == "input-bound"


def test_python_can_ask_the_same(trace: Path) -> None:
    study = read_trace(trace)
    assert study.baseline[0].device == "Some GPU"
    assert [one.code for one in study.findings] == ["input-bound"]


@pytest.mark.parametrize(
    ("text", "words", "why"),
    [
        ("", ["x.json"], "no such file"),
        ("{}", ["bad.json"], "is no trace"),
        ('{"traceEvents": []}', ["bad.json"], "no event that torch.profiler writes"),
        (
            '{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": 1}]}',
            ["bad.json"],
            "no work of a",
        ),
        ("{}", ["bad.json", "--html", "missing/p.html"], "there is no folder"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(
    text: str, words: list[str], why: str, trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.json").write_text(text)
    assert cli.main(["read", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert why in err
    assert len(err.splitlines()) == 1


def test_names_that_try_to_steer_a_terminal_or_a_page_are_shown_harmless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    made = training()
    made.launch(20, at=30, length=5, operator="aten::\x1b[2J<script>alert(1)</script>")
    made.save(tmp_path / "t.json")
    assert cli.main(["read", "t.json", "--html", "p.html"]) == 0
    assert "\x1b[2J" not in capsys.readouterr().out
    assert "<script>alert" not in (tmp_path / "p.html").read_text()

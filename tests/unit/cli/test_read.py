"""`hotlap read`: what it prints, writes and refuses."""

import json
from pathlib import Path

import pytest

from hotlap import cli, read_trace
from hotlap.record import Study, load
from tests.unit.trace.test_reading import training
from tests.unit.trace.written import Written


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
    words = ["--json", "s.json", "--html", "p.html", "--markdown", "p.md"]
    assert cli.main(["read", "trace.json.gz", *words]) == 0
    assert load(tmp_path / "s.json", Study).findings[0].code == "input-bound"
    assert "input-bound" in (tmp_path / "p.html").read_text()
    assert "input-bound" in (tmp_path / "p.md").read_text()
    assert not (tmp_path / ".hotlap").exists()


def test_json_alone_goes_to_standard_output(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["read", "trace.json.gz", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["findings"][0]["code"] == "input-bound"


def test_python_can_ask_the_same(trace: Path) -> None:
    study = read_trace(trace)
    assert study.baseline[0].device == "Some GPU"
    assert [one.code for one in study.findings] == ["input-bound"]


def two_ranks(folder: Path, *ranks: int | None) -> list[str]:
    """The one that is named last comes late to the collective, which ends for both at once."""
    names = ["host.9.json", "host.10.json"]
    for name, rank, late in zip(names, ranks, (0, 400), strict=True):
        made = training()
        made.rank, made.world_size = rank, 2
        for number in range(5):
            at = number * 1000 + 310 + late
            made.launch(at - 20, at=at, length=500 - late, name="ncclDevKernel_AllReduce_Sum_f32", stream=20)
        made.save(folder / name)
    return names


def test_ranks_without_a_number_are_those_of_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (run,) = read_trace(*reversed(two_ranks(tmp_path, None, None))).baseline
    assert [round(1e6 * (one.wait_s or 0)) for one in run.ranks] == [400, 0]
    assert run.rank == 1
    late = "Of 5 collectives last to come: rank 1 to 5 (the others wait 400 us a step for it)."
    assert run.notes[1] == late


def test_two_traces_of_one_rank_are_no_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["read", *two_ranks(tmp_path, 3, 3)]) == 2
    assert "host.9.json and host.10.json are both of rank 3" in capsys.readouterr().err


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


def test_lists_without_end_are_refused_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deep.json").write_text('{"traceEvents": [{"args": {"a": ' + "[" * 10**5 + "]" * 10**5 + "}}]}")
    assert cli.main(["read", "deep.json"]) == 2
    assert capsys.readouterr().err == "hotlap: deep.json is no trace: lists stand within lists without end in it.\n"


def test_a_trace_that_nobody_would_write_is_read_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work without a length, numbers of a thousand digits, a header that is no JSON."""
    monkeypatch.chdir(tmp_path)
    made = Written()
    made.step(0, 0, 10)
    made.host("user_annotation", "ProfilerStep#" + "9" * 5000, 0, 10)
    made.host("python_function", f"train.py({'9' * 5000}): main", 0, 10)
    made.launch(0, at=5, length=0)
    header = '"traceName": "C:\\here", "deviceProperties": [{"id": 0, "name": "Some GPU", "size": Infinity}], '
    text = json.dumps({"traceEvents": made.events})
    (tmp_path / "odd.json").write_text(text[:1] + header + text[1:])
    assert cli.main(["read", "odd.json", "--html", "p.html"]) == 0
    assert "Some GPU" in (tmp_path / "p.html").read_text()


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

"""hotlap in a notebook: what is shown, and what is refused. The real runs are in tests/e2e."""

import argparse
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from pathlib import Path

import pytest

import hotlap
from hotlap.cli import notebook, workbench
from hotlap.errors import UserError
from hotlap.record import Study, decode, encode
from hotlap.report import html
from tests import samples


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_study_shows_its_report_in_a_frame_where_nothing_runs() -> None:
    shown = notebook.shown_study(samples.study_full())
    frame = shown._repr_html_()
    assert frame.startswith("<iframe srcdoc=")
    assert 'sandbox=""' in frame
    page = unescape(frame.split('srcdoc="')[1].split('" sandbox')[0])
    assert page == html.render(samples.study_full())


def test_hostile_strings_stay_inside_of_the_frame() -> None:
    frame = notebook.shown_study(samples.study_hostile())._repr_html_()
    assert frame.count("<") == 2  # the frame and its end
    assert frame.count('"') == 6


def test_without_html_it_reads_as_the_report_of_the_terminal() -> None:
    assert "hotlap" in repr(notebook.shown_study(samples.study_full()))


def test_it_is_a_study_like_any_other() -> None:
    full = samples.study_full()
    shown = notebook.shown_study(full)
    assert isinstance(shown, Study)
    assert decode(encode(shown), Study) == full


def test_the_public_names_are_the_notebooks() -> None:
    assert hotlap.measure is notebook.measure
    with pytest.raises(UserError, match=r"There is no file train\.py"):
        hotlap.measure("train.py")
    with pytest.raises(UserError, match=r"There is no file train\.py"):
        hotlap.tune("train.py")


NAMES = """
import hotlap
before = callable(hotlap.tune)
import hotlap.tune
from hotlap.tune import Options
import sys
assert before and callable(hotlap.tune), "hotlap.tune can be called"
assert hotlap.tune.Options is Options, "and is the package all the same"
assert sys.modules["hotlap.tune"] is hotlap.tune
assert "torch" not in sys.modules and "IPython" not in sys.modules
"""


@pytest.mark.parametrize("first", ["", "import hotlap.tune.tuner\n"])
def test_tune_is_a_package_and_a_function_whoever_imports_it_first(first: str) -> None:
    subprocess.run([sys.executable, "-c", first + NAMES], check=True, timeout=400)


def test_wishes_that_make_no_sense_are_refused() -> None:
    Path("train.py").write_text("")
    with pytest.raises(UserError, match="whole number from 8"):
        notebook.measure("train.py", steps=3)
    with pytest.raises(UserError, match="There is no lever 'warp'"):
        notebook.tune("train.py", levers=["warp"])
    with pytest.raises(UserError, match="is not a time"):
        notebook.tune("train.py", budget_s=0)


def test_one_lever_or_several_may_be_one_text() -> None:
    Path("train.py").write_text("")
    for levers in ("warp", "threads,warp"):
        with pytest.raises(UserError, match="There is no lever 'warp'"):
            notebook.tune("train.py", levers=levers)


def test_a_line_with_arguments_is_split_as_a_shell_does_it_unless_a_file_is_called_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tails: list[list[str]] = []

    def studied(args: argparse.Namespace) -> Study:
        tails.append(args.tail)
        return samples.study_full()

    monkeypatch.setitem(notebook._STUDIED, "measure", studied)
    Path("my train.py").write_text("")
    for command in ("train.py --name 'a b'", ["train.py", "--name", "a b"], "my train.py", Path("my train.py")):
        notebook.measure(command)
    assert tails == [["train.py", "--name", "a b"]] * 2 + [["my train.py"]] * 2


def test_in_another_thread_signals_stay_the_programs_own() -> None:
    def inside() -> object:
        with workbench.Interrupt():
            return signal.getsignal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(inside).result() == before

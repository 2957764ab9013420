"""hotlap in a notebook: what is shown, what is registered, and what is refused. The real runs are in tests/e2e."""

import subprocess
import sys
from collections.abc import Sequence
from html import unescape
from pathlib import Path

import pytest

import hotlap
from hotlap.cli import notebook
from hotlap.errors import NoSteps, UserError
from hotlap.record import Study, decode, encode
from hotlap.report import html
from tests import samples


class Shell:
    """What `%load_ext` hands over, as far as it is used."""

    def __init__(self) -> None:
        self.magics: dict[tuple[str, str], object] = {}

    def register_magic_function(self, function: object, kind: str, name: str) -> None:
        self.magics[kind, name] = function


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


def test_the_extension_registers_one_cell_magic() -> None:
    shell = Shell()
    hotlap.load_ipython_extension(shell)
    assert shell.magics == {("cell", "hotlap"): notebook.cell_magic}


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


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("--stepz=5", "unrecognized arguments"),
        ("fly", "%%hotlap fly: the cell can be"),
        ("--steps soon", "--steps soon is not a whole number"),
        ("tune --budget never", "--budget never is not a time"),
        ('--steps "5', "No closing quotation"),
        ("tune --levers warp-drive", "There is no lever 'warp-drive'"),
    ],
)
def test_a_magic_that_cannot_be_done_says_why(
    line: str, says: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert notebook.cell_magic(line, "import torch\n") is None
    err = capsys.readouterr().err
    assert says in err
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_the_cell_is_a_script_beside_the_notebook_while_it_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[tuple[str, str, bool]] = []

    def study(name: str, words: Sequence[str]) -> notebook.ShownStudy:
        script = Path(words[-1])
        seen.append((script.read_text(), str(script.resolve().parent), "--quick" in words))
        return notebook.shown_study(samples.study_full())

    monkeypatch.setattr(notebook, "_study", study)
    shown = notebook.cell_magic("--quick --steps 20", "x = '\u00e9'\n")
    assert isinstance(shown, notebook.ShownStudy)
    assert seen == [("x = '\u00e9'\n", str(tmp_path.resolve()), True)]
    assert list(tmp_path.iterdir()) == []


def test_a_cell_that_fails_shows_its_own_output_and_leaves_no_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def study(*_: object) -> notebook.ShownStudy:
        raise NoSteps("It made no step.", output="line of the cell")

    monkeypatch.setattr(notebook, "_study", study)
    assert notebook.cell_magic("", "print(1)\n") is None
    assert capsys.readouterr().err == "line of the cell\n\nhotlap: It made no step.\n"
    assert list(tmp_path.iterdir()) == []

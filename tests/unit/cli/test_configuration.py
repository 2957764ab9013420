"""`[tool.hotlap]`: defaults of commands that run a training; what cannot be one is refused with the place."""

from pathlib import Path

import pytest

from hotlap import cli
from hotlap.cli import configuration, words
from hotlap.errors import UserError


def configured(folder: Path, text: str, line: list[str]) -> dict[str, object]:
    (folder / "pyproject.toml").write_text(text)
    parser = cli.build_parser()
    configuration.apply(parser, folder)
    head, _ = words.split_command(line, parser)
    return vars(parser.parse_args(head))


def test_an_option_has_the_default_that_the_file_says(tmp_path: Path) -> None:
    text = '[tool.hotlap]\nbudget = "10m"\nskip = ["tf32", "compile"]\nseed = 3\nfresh = true\n'
    found = configured(tmp_path, text, ["tune", "train.py"])
    assert (found["budget"], found["skip"], found["seed"], found["fresh"]) == (600, ("tf32", "compile"), 3, True)
    assert configured(tmp_path, text, ["tune", "--budget", "1m", "train.py"])["budget"] == 60, "the line goes first"


def test_an_option_of_several_names_takes_one_or_a_list_and_the_line_goes_first(tmp_path: Path) -> None:
    for text in ('[tool.hotlap]\ngpu = "H100, L4"\n', '[tool.hotlap]\ngpu = ["H100", "L4"]\n'):
        assert configured(tmp_path, text, ["predict", "train.py"])["gpu"] == ("H100", "L4")
    assert configured(tmp_path, text, ["predict", "--gpu", "T4", "train.py"])["gpu"] == ("T4",)


def test_the_nearest_file_with_such_a_table_counts(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.hotlap]\nbudget = "10m"\n')
    inner = tmp_path / "inner"
    inner.mkdir()
    assert configured(inner, "[project]\n", ["tune", "train.py"])["budget"] == 600


def test_options_for_other_runs_do_not_stand_in_the_way_of_a_full_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    (tmp_path / "pyproject.toml").write_text('[tool.hotlap]\ntimeout = "5m"\n')
    assert cli.main(["measure", "--full", "--json", "-", "train.py"]) == 2
    assert "--json - does not go with --full" in capsys.readouterr().err, "and not: --timeout does not"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[tool.hotlap]\nbudgte = 1\n", "no command has an option --budgte"),
        ('[tool.hotlap]\nfresh = "yes"\n', "true or false"),
        ("[tool.hotlap]\nbudget = true\n", "a text or a number"),
        ("[tool.hotlap]\nlevers = [1]\n", "neither a text"),
        ("[tool.hotlap\n", "cannot be read"),
        ("tool = 3\n", "tool is 3, and not a table"),
        ("[tool]\nhotlap = 3\n", "hotlap is 3, and not a table"),
        ('[tool.hotlap]\nnumerics = "exakt"\n', r"pyproject.toml: numerics = .* none of exact, rounding, statistical"),
        ('[tool.hotlap]\ncolor = "blau"\n', r"pyproject.toml: color = .* none of auto, always, never"),
        ('[tool.hotlap]\nbudget = "10 minutes"\n', r"pyproject.toml: budget = .* is not a time"),
    ],
)
def test_what_cannot_be_a_default_is_refused(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        configured(tmp_path, text, ["tune", "train.py"])

"""The command line: what is cut where, what is refused with which sentence and exit code, before anything runs."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

import hotlap
from hotlap import cli
from hotlap.cli import check, target, tune, words
from hotlap.cli.options import FAILS, INCONCLUSIVE, SLOWER
from hotlap.cli.words import split_command
from hotlap.errors import HotlapError, NoSteps, RecordError, ScriptFailed, UserError


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(words: Sequence[str], capsys: pytest.CaptureFixture[str], *, cwd: Path) -> str:
    """The one sentence that the user is shown; nothing was made, nothing went to standard output."""
    before = sorted(cwd.rglob("*"))
    assert cli.main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("hotlap: ")
    assert err.endswith(".\n")
    assert "Traceback" not in err
    assert sorted(cwd.rglob("*")) == before
    return err.removeprefix("hotlap: ").rstrip("\n")


def test_without_words_the_help_is_shown_and_it_counts_as_misuse(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    assert "make a training faster:" in capsys.readouterr().out


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(["--version"])
    assert left.value.code == 0
    assert capsys.readouterr().out == f"hotlap {hotlap.__version__}\n"


@pytest.mark.parametrize("words", [["--nonsense"], ["tune", "--nonsense", "a.py"], ["apply", "a", "b"]])
def test_what_no_parser_knows_is_misuse(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(words)
    assert left.value.code == 2
    err = capsys.readouterr().err
    assert "usage: hotlap" in err and "error: unrecognized arguments: " in err


def test_each_error_has_the_exit_code_that_the_help_promises() -> None:
    assert (HotlapError.exit_code, UserError.exit_code, RecordError.exit_code) == (1, 2, 2)
    assert (ScriptFailed.exit_code, NoSteps.exit_code) == (3, 4)
    promised = {int(code) for code in re.findall(r"^  (\d+) ", cli.build_parser().format_help(), re.MULTILINE)}
    assert promised == {0, 1, 2, 3, 4, FAILS, INCONCLUSIVE, SLOWER, 130, 141}


def test_a_script_in_the_place_of_a_command_gets_a_hint(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    assert "`hotlap tune train.py` makes it faster" in refused(["train.py"], capsys, cwd=tmp_path)


def test_an_option_means_the_same_in_every_command() -> None:
    # Of those that several commands have: what they are given is called the same, and is as many words.
    kinds: dict[str, set[tuple[object, object]]] = {}
    for command in words.commands(cli.build_parser()).values():
        for action in command._actions:
            for name in action.option_strings:
                kinds.setdefault(name, set()).add((action.metavar, action.nargs))
    assert {name: found for name, found in kinds.items() if len(found) > 1} == {}


def test_levers_can_be_left_out(tmp_path: Path) -> None:
    def tried(*options: str) -> tuple[str, ...] | None:
        parser = cli.build_parser()
        return tune._names(parser.parse_args(["tune", *options]))

    left = tried("--skip", "tf32,compile")
    assert left is not None
    assert "tf32" not in left and "threads" in left
    assert tried("--levers", "threads,tf32", "--skip", "tf32") == ("threads",)
    assert tried() is None
    with pytest.raises(UserError, match="leaves no lever"):
        tried("--levers", "tf32", "--skip", "tf32")
    with pytest.raises(UserError, match="no lever 'slow'"):
        tried("--skip", "slow")


# Where the words of the training begin


@pytest.mark.parametrize(
    ("words", "ours", "theirs"),
    [
        (["tune", "a.py", "--budget", "1h"], ["tune"], ["a.py", "--budget", "1h"]),
        (["tune", "--budget", "1h", "a.py", "-x"], ["tune", "--budget", "1h"], ["a.py", "-x"]),
        (["tune", "--budget=1h", "a.py"], ["tune", "--budget=1h"], ["a.py"]),
        (["tune", "--fresh", "a.py"], ["tune", "--fresh"], ["a.py"]),
        (["tune", "--json", "-", "a.py"], ["tune", "--json", "-"], ["a.py"]),
        (["tune", "-m", "pkg.train", "--help"], ["tune"], ["-m", "pkg.train", "--help"]),
        (["tune", "--", "bash", "a.sh"], ["tune"], ["--", "bash", "a.sh"]),
        (["tune", "a.py", "--", "b"], ["tune"], ["a.py", "--", "b"]),
        (["measure", "--full", "--quick", "a.py", "--full"], ["measure", "--full", "--quick"], ["a.py", "--full"]),
        (
            ["measure", "--steps", "50", "--markdown", "t.md", "a.py"],
            ["measure", "--steps", "50", "--markdown", "t.md"],
            ["a.py"],
        ),
        (["measure", "-m", "pkg"], ["measure"], ["-m", "pkg"]),
        (["predict", "--gpu", "4090", "a.py", "--gpu", "x"], ["predict", "--gpu", "4090"], ["a.py", "--gpu", "x"]),
        (["predict", "--changes", "-m", "pkg"], ["predict", "--changes"], ["-m", "pkg"]),
        (["check", "-q", "a.py", "b.py", "-q", "c"], ["check", "-q", "a.py", "b.py"], ["-q", "c"]),
        (["lab", "pinning", "--quick", "a.py"], ["lab", "pinning", "--quick"], ["a.py"]),
        (["tune"], ["tune"], []),
        (["tune", "--help"], ["tune", "--help"], []),
        (["apply", "x", "--revert"], ["apply", "x", "--revert"], []),
        ([], [], []),
    ],
)
def test_words_behind_the_script_are_the_scripts(words: list[str], ours: list[str], theirs: list[str]) -> None:
    assert split_command(words, cli.build_parser()) == (ours, theirs)


def test_every_option_that_takes_a_value_is_known_where_words_are_cut() -> None:
    # Otherwise the value of a new option would be taken for the script.
    for command in words.commands(cli.build_parser()).values():
        shown = re.findall(r"^  (-[-a-zA-Z]+) [A-Z{]", command.format_help(), re.MULTILINE)
        assert set(shown) == words.value_options(command)


# What is refused before anything runs


def test_nothing_to_train(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "Give a script" in refused(["tune"], capsys, cwd=tmp_path)
    assert "Give a script" in refused(["tune", ""], capsys, cwd=tmp_path)
    assert "name of a module" in refused(["tune", "-m"], capsys, cwd=tmp_path)
    assert "`hotlap predict -m package.train`" in refused(["predict", "-m"], capsys, cwd=tmp_path)
    assert "needs a command" in refused(["tune", "--"], capsys, cwd=tmp_path)


def test_a_script_that_is_not_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "There is no file train.py." in refused(["tune", "train.py"], capsys, cwd=tmp_path)


def test_a_folder_instead_of_a_script(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    assert "src is a folder." in refused(["tune", "src"], capsys, cwd=tmp_path)


@pytest.mark.parametrize("data", [b"#!/bin/bash\necho 'hello\n", b"\x7fELF\x02\x01\x01\x00\x00", b"\xff\xfe\x00"])
def test_a_program_that_is_not_python(data: bytes, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "train").write_bytes(data)
    sentence = refused(["tune", "train"], capsys, cwd=tmp_path)
    assert sentence.startswith("train is not a script for Python")
    assert "hotlap tune -- COMMAND" in sentence
    assert "None" not in sentence


def test_a_script_with_a_mistake_is_told_by_its_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\ndef f(:\n")
    sentence = refused(["measure", "train.py"], capsys, cwd=tmp_path)
    assert "line 2: invalid syntax." in sentence
    assert "COMMAND" not in sentence


def test_a_script_in_an_encoding_of_its_own_is_python(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_bytes("# -*- coding: latin-1 -*-\nname = '\u00e9t\u00e9'\n".encode("latin-1"))
    assert target.parse(["train.py"], cwd=tmp_path).script == tmp_path / "train.py"


@pytest.mark.parametrize(("text", "value"), [("5%", 0.05), ("5", 0.05), ("0.5%", 0.005), (" 10 % ", 0.1), ("0", 0.0)])
def test_a_percentage_is_read(text: str, value: float) -> None:
    assert words.share(text, "--max-regression") == pytest.approx(value)


@pytest.mark.parametrize("text", ["-5%", "x", "", "1e3", "5%%", "nan"])
def test_a_percentage_that_is_none(text: str) -> None:
    with pytest.raises(UserError, match=r"--max-regression .* is not a percentage"):
        words.share(text, "--max-regression")


@pytest.mark.parametrize("text", ["0", "0s", "soon", "5 minutes", "1d", "", "1e3", "nan", "-5s", "-m"])
@pytest.mark.parametrize("option", ["--budget", "--timeout"])
def test_a_time_that_is_none(option: str, text: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    assert f"{option} {text} is not a time." in refused(["tune", option, text, "train.py"], capsys, cwd=tmp_path)


@pytest.mark.parametrize(("text", "seconds"), [("5m", 300), ("90s", 90), ("80ms", 0.08), ("1.5h", 5400), (" 2m ", 120)])
def test_a_time_is_read_in_its_unit(text: str, seconds: float) -> None:
    assert words.seconds(text, "--budget") == seconds


@pytest.mark.parametrize("seed", ["-1", "-x", "1.5", "x", "12345678901"])
def test_a_seed_that_is_none(seed: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    assert "is not a whole number" in refused(["tune", "--seed", seed, "train.py"], capsys, cwd=tmp_path)


@pytest.mark.parametrize("text", ["8", "much", "80%"])
def test_a_memory_that_is_none(text: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    sentence = refused(["tune", "--memory", text, "train.py"], capsys, cwd=tmp_path)
    assert f"--memory {text} is not a size" in sentence


def test_the_option_goes_before_the_variable() -> None:
    assert words.memory("1.5GB", {"HOTLAP_MEMORY": "2GB"}) == 1_500_000_000
    assert words.memory(None, {"HOTLAP_MEMORY": "2GB"}) == 2_000_000_000
    assert words.memory(None, {}) is None
    with pytest.raises(UserError, match="HOTLAP_MEMORY x is not a size"):
        words.memory(None, {"HOTLAP_MEMORY": "x"})


def test_a_lever_that_nobody_knows(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    sentence = refused(["tune", "--levers", "threads,warp-drive", "train.py"], capsys, cwd=tmp_path)
    assert "There is no lever 'warp-drive'. Known: " in sentence
    sentence = refused(["tune", "--levers", "cached-datset", "train.py"], capsys, cwd=tmp_path)
    assert "There is no lever 'cached-datset'. Did you mean cached-dataset? Known: " in sentence


@pytest.mark.parametrize("words", [["measure", "--no-such", "train.py"], ["apply", "--no-such"], ["list", "--no-such"]])
def test_an_option_that_no_command_has_is_told_with_the_usage_of_the_command(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(words)
    assert left.value.code == 2
    told = capsys.readouterr().err
    assert told.startswith(f"usage: hotlap {words[0]} [")
    assert told.endswith(f"hotlap {words[0]}: error: unrecognized arguments: --no-such\n")


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["predict", "--gpus", "H100"], "--gpus. Did you mean --gpu?"),
        (["tune", "--budjet=2m", "train.py"], "--budjet=2m. Did you mean --budget?"),
    ],
)
def test_an_option_that_is_nearly_one_is_told_with_that_one(
    words: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        cli.main(words)
    assert capsys.readouterr().err.endswith(f"error: unrecognized arguments: {meant}\n")


def test_a_word_that_is_no_command_is_told_with_the_one_that_was_meant(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    told = {word: refused([word, "train.py"], capsys, cwd=tmp_path) for word in ("measure-it", "dance")}
    assert told == {
        "measure-it": "There is no command measure-it. Did you mean measure? `hotlap --help` lists them all.",
        "dance": "There is no command dance. `hotlap --help` lists them all.",
    }


def test_an_option_in_front_of_the_command_is_told_where_it_stands(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    told = refused(["-q", "measure", "train.py"], capsys, cwd=tmp_path)
    assert told == "Options stand behind the command: hotlap measure -q."


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--steps", "x"], "--steps x is not a whole number from 8"),
        (["--steps", "7"], "--steps 7 is not a whole number from 8"),
        (["--warmup", "-1"], "--warmup -1 is not a whole number from 0"),
        (["--full", "--steps", "9"], "--steps does not go with --full"),
        (["--full", "--quick"], "--quick does not go with --full"),
        (["--full", "--json", "-"], "--json - does not go with --full"),
        (["--html", "no/such/place.html"], "there is no folder no/such"),
        (["--json", "."], ". is a folder"),
    ],
)
def test_wishes_that_cannot_be_measured(
    options: list[str], says: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text("")
    assert says in refused(["measure", *options, "train.py"], capsys, cwd=tmp_path)


# What is started


def test_a_script_is_started_by_this_python_with_its_words(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    found = target.parse(["train.py", "--lr", "1"], cwd=tmp_path)
    assert found.command[1:] == ("train.py", "--lr", "1")
    assert found.title == "train.py"


def test_a_module_and_a_command_are_started_as_they_are(tmp_path: Path) -> None:
    module = target.parse(["-m", "pkg.train", "x"], cwd=tmp_path)
    assert module.command[1:] == ("-m", "pkg.train", "x")
    assert (module.title, module.script) == ("pkg.train", None)
    command = target.parse(["--", "/bin/bash", "train.sh"], cwd=tmp_path)
    assert command.command == ("/bin/bash", "train.sh")
    assert (command.title, command.script) == ("bash", None)


# How errors are told


def test_the_scripts_own_words_come_before_ours(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def fails(*_: object) -> int:
        raise ScriptFailed("train.py failed.", output="Traceback ...\nValueError: no\n")

    (tmp_path / "train.py").write_text("")
    monkeypatch.setattr(tune, "studied", fails)
    assert cli.main(["tune", "train.py"]) == 3
    assert capsys.readouterr().err == "Traceback ...\nValueError: no\n\nhotlap: train.py failed.\n"


@pytest.mark.parametrize("words", [["tune", "train.py"], ["check", "train.py", "train.py"]])
@pytest.mark.parametrize(
    ("text", "theirs", "told"),
    [
        ("", "--budget=4m", True),
        ("parser.add_argument('--budget')", "--budget=4m", False),
        ("@dataclass\nclass Options:\n    budget: int\n", "--budget=4m", False),
        ("", "--epochs=4", False),
    ],
)
def test_an_option_of_ours_behind_a_script_that_does_not_name_it_is_told(
    words: list[str],
    text: str,
    theirs: str,
    told: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    (tmp_path / "train.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    for command in (tune, check):
        monkeypatch.setattr(command, "run", lambda args: 0)
    assert cli.main([*words, theirs]) == 0
    note = "hotlap: note: --budget stands behind train.py, which does not name it; options of hotlap stand in front"
    assert (note in capsys.readouterr().err) is told


def test_an_interruption_has_its_own_exit_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    (tmp_path / "train.py").write_text("")
    monkeypatch.setattr(tune, "studied", interrupted)
    assert cli.main(["tune", "train.py"]) == 130


def test_what_is_our_own_fault_is_not_hidden(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(*_: object) -> int:
        raise ZeroDivisionError

    (tmp_path / "train.py").write_text("")
    monkeypatch.setattr(tune, "studied", broken)
    with pytest.raises(ZeroDivisionError):
        cli.main(["tune", "train.py"])

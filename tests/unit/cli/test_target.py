"""What stands behind the options: the folders in which a study edits copies of the user's files."""

import sys
from pathlib import Path

import pytest

from hotlap.cli.target import parse
from hotlap.errors import UserError


def test_a_notebook_is_refused_with_the_way_to_a_script(tmp_path: Path) -> None:
    (tmp_path / "train.ipynb").write_text('{"cells": [], "nbformat": 4}')
    with pytest.raises(UserError, match=r"train\.ipynb is a notebook\. .*jupyter nbconvert --to script train\.ipynb"):
        parse(["train.ipynb"], cwd=tmp_path)


def test_scripts_that_a_command_names_are_edited_where_they_lie(tmp_path: Path) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    for folder in (home, elsewhere):
        folder.mkdir()
        (folder / "train.py").touch()
    launcher = ("--", sys.executable, "-m", "torch.distributed.run")
    assert parse([*launcher, "../elsewhere/train.py", "no.py"], cwd=home).folders() == [home, elsewhere]
    assert parse(["../elsewhere/train.py", "eval.py"], cwd=home).folders() == [home, elsewhere]
    assert parse([*launcher, "-m", "train"], cwd=home).folders() == [home]


def covered(words: list[str], cwd: Path) -> set[Path]:
    return set(parse(words, cwd=cwd).folders())


def test_a_linked_script_has_the_links_folder_and_that_of_the_file(tmp_path: Path) -> None:
    home, link, real = (tmp_path / name for name in ("home", "link", "real"))
    for folder in (home, link, real):
        folder.mkdir()
    (real / "train.py").touch()
    (link / "train.py").symlink_to(real / "train.py")
    for words in (["../link/train.py"], ["--", sys.executable, "../link/train.py"]):
        assert covered(words, home) == {home, link, real}


def test_a_modules_folder_is_found_where_python_would_find_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, library = tmp_path / "home", tmp_path / "library"
    home.mkdir()
    (library / "of" / "mine").mkdir(parents=True)
    (library / "of" / "__init__.py").write_text("raise SystemExit('imported')")
    (library / "of" / "mine" / "train.py").touch()
    (library / "of" / "__main__.py").touch()
    monkeypatch.syspath_prepend(str(library))
    assert covered(["-m", "of.mine.train"], home) == {home, library / "of" / "mine"}
    assert covered(["-m", "of"], home) == {home, library / "of"}
    assert covered(["--", sys.executable, "-m", "of"], home) == {home, library / "of"}
    assert covered(["-m", "torch.distributed.run", "no.py"], home) == {home}
    assert covered(["-m", "json.tool"], home) == {home}


def test_a_programs_folder_is_covered_if_it_is_text_and_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, mine, installed = (tmp_path / name for name in ("home", "mine", "installed"))
    for folder in (home, mine, installed):
        folder.mkdir()
        for name in ("run.sh", "run", "data.bin"):
            (folder / name).write_text("#!/bin/sh\n" if name != "data.bin" else "")
            (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{installed}:/bin:/usr/bin")
    monkeypatch.chdir(home)
    assert covered(["--", "../mine/run.sh"], home) == {home, mine}
    assert covered(["--", "../mine/run"], home) == {home, mine}
    assert covered(["--", "sh", "../mine/run", "a" * 5000], home) == {home, mine}
    assert covered(["--", "../installed/run"], home) == {home}
    assert covered(["--", "sh", "../mine/data.bin"], home) == {home}

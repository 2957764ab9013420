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

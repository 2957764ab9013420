"""What stands behind the options: the folders in which a study edits copies of the user's files."""

import sys
from pathlib import Path

from hotlap.cli.target import parse


def test_scripts_that_a_command_names_are_edited_where_they_lie(tmp_path: Path) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    for folder in (home, elsewhere):
        folder.mkdir()
        (folder / "train.py").touch()
    launcher = ("--", sys.executable, "-m", "torch.distributed.run")
    assert parse([*launcher, "../elsewhere/train.py", "no.py"], cwd=home).folders() == [home, elsewhere]
    assert parse(["../elsewhere/train.py", "eval.py"], cwd=home).folders() == [home, elsewhere]
    assert parse([*launcher, "-m", "train"], cwd=home).folders() == [home]

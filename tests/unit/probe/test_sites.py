"""hotlap.probe.sites: which source files are the user's own."""

from pathlib import Path

import pytest
import torch

from hotlap.probe import sites


@pytest.mark.parametrize("folder", ["site-packages", "dist-packages"])
def test_packages_of_another_environment_are_not_the_users(tmp_path: Path, folder: str) -> None:
    path = tmp_path / "other" / folder / "package" / "module.py"
    path.parent.mkdir(parents=True)
    path.write_text("x = 1\n")
    assert not sites.is_users(str(path))


def test_a_script_is_the_users_and_torch_is_not(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("x = 1\n")
    assert sites.is_users(str(path))
    assert not sites.is_users(str(torch.__file__))

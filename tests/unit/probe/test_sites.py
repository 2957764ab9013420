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
    (tmp_path / "link.py").symlink_to(path)
    (tmp_path / "linked").symlink_to(path.parent)
    for name in (path, tmp_path / "link.py", tmp_path / "linked" / "module.py"):
        assert not sites.is_users(str(name))


def test_a_script_is_the_users_and_torch_is_not(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("x = 1\n")
    assert sites.is_users(str(path))
    assert not sites.is_users(str(torch.__file__))


def test_a_wrapped_constructor_is_no_library_that_makes_something() -> None:
    def run(code: str, made: object) -> object:
        """Of a library: a function that is given `made` first, and asks."""
        names: dict[str, object] = {"called_through": sites.called_through, "__name__": "library.loaders"}
        exec(compile(code, torch.__file__, "exec"), names)
        return names["asks"](made)  # type: ignore[operator]

    loader = object()
    assert run("def asks(self): return called_through(self)", loader) == ""
    assert run("def asks(data): return called_through(object())", loader) == "library.loaders"
    assert run("def made(self): return called_through(self)\ndef asks(n): return made(3)", 4) == "library.loaders"


def test_what_a_distribution_keeps_elsewhere_is_pythons_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian links its `sitecustomize` to /etc."""
    kept, stdlib = tmp_path / "etc" / "sitecustomize.py", tmp_path / "lib"
    kept.parent.mkdir()
    kept.write_text("")
    stdlib.mkdir()
    (stdlib / "sitecustomize.py").symlink_to(kept)
    monkeypatch.setattr(sites, "_STDLIB", str(stdlib))
    assert not sites.is_users(str(stdlib / "sitecustomize.py"))
    assert sites.is_users(str(kept))

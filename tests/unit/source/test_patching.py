"""patch(): what it reads, what it refuses to read, and the diff that other tools have to take."""

import hashlib
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hotlap.errors import UserError
from hotlap.record import CallSite
from hotlap.source import (
    AddArgument,
    CannotEdit,
    Edit,
    InsertAfterImports,
    WrapArgument,
    WrapStatement,
    patch,
    top_of,
)
from tests.edits.sites import sites

TEXT = 'from torch.optim import Adam\n\nname = "é"; optimizer = Adam(params, lr=0.1)\nprint(optimizer)\n'


def fused(path: Path, text: str) -> list[Edit]:
    return [
        AddArgument(site=site, keyword="fused", value="True")
        for site in sites(text, "Adam", path=str(path), data=path.read_bytes())
    ]


def threads(path: Path) -> InsertAfterImports:
    site = top_of(str(path), sha256(path))
    return InsertAfterImports(site=site, code="torch.set_num_threads(1)", imports="import torch")


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(TEXT)
    return path


def test_says_what_changes_and_writes_nothing(script: Path) -> None:
    patched = patch(fused(script, TEXT), root=script.parent)
    new = TEXT.replace("lr=0.1", "lr=0.1, fused=True")
    assert patched.texts == {str(script): new}
    assert patched.diff.startswith("--- a/train.py\n+++ b/train.py\n@@ -1,4 +1,4 @@\n")
    (change,) = patched.changes
    assert (change.path, change.before_sha256) == (str(script), sha256(script))
    assert change.after_sha256 == hashlib.sha256(new.encode()).hexdigest()
    assert script.read_text() == TEXT


def test_no_edits_make_no_diff(script: Path) -> None:
    patched = patch([], root=script.parent)
    assert (patched.diff, patched.texts, patched.changes) == ("", {}, ())


def test_the_same_edit_twice_is_one(script: Path) -> None:
    once, twice = fused(script, TEXT), fused(script, TEXT) * 2
    assert patch(once, root=script.parent) == patch(twice, root=script.parent)


def test_an_edit_whose_effect_is_there_makes_no_diff(script: Path) -> None:
    new = patch([*fused(script, TEXT), threads(script)], root=script.parent).texts[str(script)]
    script.write_text(new)
    assert patch([*fused(script, new), threads(script)], root=script.parent).diff == ""


def test_two_edits_that_want_different_values_are_refused(script: Path) -> None:
    (site,) = sites(TEXT, "Adam", path=str(script))
    edits = [AddArgument(site=site, keyword="fused", value=value) for value in ("True", "False")]
    with pytest.raises(CannotEdit, match=r"train\.py:3 cannot be edited: two changes want different values"):
        patch(edits, root=script.parent)


def test_a_file_that_changed_since_is_refused(script: Path) -> None:
    edits = fused(script, TEXT)
    script.write_text(TEXT + "# a word\n")
    with pytest.raises(UserError, match=r"train\.py changed since it was measured\. Run `hotlap tune` again\."):
        patch(edits, root=script.parent)


def test_edits_of_which_one_was_recorded_before_the_file_changed_are_refused(script: Path) -> None:
    edits = [*fused(script, TEXT), replace(threads(script), site=top_of(str(script), "0" * 64))]
    with pytest.raises(UserError, match=r"train\.py changed while it was measured\. Run `hotlap tune` again\."):
        patch(edits, root=script.parent)


def test_a_missing_file_is_refused(script: Path) -> None:
    edits = fused(script, TEXT)
    script.unlink()
    with pytest.raises(UserError, match=r"train\.py is not there any more"):
        patch(edits, root=script.parent)


def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot be read"):
        patch([InsertAfterImports(site=top_of(str(tmp_path), ""), code="import os")], root=tmp_path)


@pytest.mark.parametrize("data", [b"x = (\n", b"# coding: nonsense\n", b"x = '\xff'\n", b"x = 1\x00\n"])
def test_what_is_not_python_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "odd.py"
    path.write_bytes(data)
    with pytest.raises(UserError, match=r"odd\.py"):
        patch([InsertAfterImports(site=top_of(str(path), sha256(path)), code="import os")], root=tmp_path)


def test_a_place_without_a_call_is_refused(script: Path) -> None:
    site = CallSite(
        calls="torch.optim.Adam", path=str(script), sha256=sha256(script), line=3, end_line=3, col=0, end_col=4
    )
    with pytest.raises(CannotEdit, match=r"train\.py:3 .* no single call of torch\.optim\.Adam is at column 1"):
        patch([AddArgument(site=site, keyword="fused", value="True")], root=script.parent)


def test_control_characters_of_a_path_do_not_reach_the_terminal(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        patch([InsertAfterImports(site=top_of(f"{tmp_path}/\x1b[31m.py", ""), code="import os")], root=tmp_path)
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    "data",
    [
        TEXT.encode(),
        TEXT.replace("\n", "\r\n").encode(),
        TEXT.removesuffix("\n").encode(),
        TEXT.replace("\n", "\r\n").removesuffix("\r\n").encode(),
        b"\xef\xbb\xbf" + TEXT.encode(),
        b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode(),
        ("# -*- coding: utf-8 -*-\n" + TEXT).encode(),
        b"from torch.optim import Adam",
        b"",
    ],
    ids=["lf", "crlf", "no-end", "crlf-no-end", "bom", "bom-crlf", "declared", "one-line", "empty"],
)
@pytest.mark.parametrize("tool", [["git", "apply"], ["patch", "-p1", "--binary"]], ids=["git", "patch"])
@pytest.mark.parametrize("name", ["train.py", "pack age/odd näme.py"], ids=["plain", "odd"])
def test_other_tools_take_the_diff(tmp_path: Path, data: bytes, tool: list[str], name: str) -> None:
    if shutil.which(tool[0]) is None:
        pytest.skip(f"{tool[0]} is not installed")
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    edits = [*fused(path, data.decode("utf-8-sig")), threads(path)]
    patched = patch(edits, root=tmp_path)
    done = subprocess.run(tool, input=patched.diff.encode(), cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert sha256(path) == patched.changes[0].after_sha256
    assert path.read_bytes().count(b"\r\n") in (0, path.read_bytes().count(b"\n"))
    assert path.read_bytes().endswith(b"\n") == (data.endswith(b"\n") or not data)
    assert path.read_bytes().startswith(b"\xef\xbb\xbf") == data.startswith(b"\xef\xbb\xbf")


def test_another_encoding_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "old.py"
    text = "# coding: latin-1\n" + TEXT
    path.write_bytes(text.encode("latin-1"))
    # Columns count UTF-8 bytes whatever the file is in.
    edits = fused(path, text)
    patched = patch(edits, root=tmp_path)
    new = text.replace("lr=0.1", "lr=0.1, fused=True")
    assert patched.texts == {str(path): new}
    assert patched.changes[0].after_sha256 == hashlib.sha256(new.encode("latin-1")).hexdigest()


def test_files_outside_of_the_root_are_named_whole(tmp_path: Path, script: Path) -> None:
    (tmp_path / "sub").mkdir()
    diff = patch(fused(script, TEXT), root=tmp_path / "sub").diff
    assert diff.splitlines()[0] == f"--- a{script}"


def test_several_files_come_in_one_diff(tmp_path: Path, script: Path) -> None:
    other = tmp_path / "other.py"
    other.write_text(TEXT)
    patched = patch([*fused(script, TEXT), *fused(other, TEXT)], root=tmp_path)
    assert [line for line in patched.diff.splitlines() if line.startswith("+++")] == [
        "+++ b/train.py",
        "+++ b/other.py",
    ]
    assert set(patched.texts) == {str(script), str(other)}


def test_each_edit_finds_its_own_call_among_nested_ones(tmp_path: Path) -> None:
    text = "x = f(f(1), *[f(2) for _ in y], k=f(f(3)))\n"
    path = tmp_path / "nested.py"
    path.write_text(text)
    for index, site in enumerate(sites(text, "f", path=str(path))):
        new = patch([AddArgument(site=site, keyword="n", value=str(index))], root=tmp_path).texts[str(path)]
        assert f"n={index})" in new
        assert sites(new, "f")[index].end_col == site.end_col + len(", n=0")


def test_positions_are_those_of_a_running_frame(tmp_path: Path) -> None:
    text = (
        "def go():\n    'é'; a = (thing\n        .make(\n            1,\n        ).then(2))\n"
        "    return make(3) + make(*[4])\n"
    )
    path = tmp_path / "frames.py"
    path.write_text(text)
    seen: list[tuple[int | None, ...]] = []

    class Thing:
        def make(self, *_: int) -> "Thing":
            frame = sys._getframe(1)
            seen.append(list(frame.f_code.co_positions())[frame.f_lasti // 2])
            return self

        then = make

    thing = Thing()

    def make(*_: int) -> str:
        frame = sys._getframe(1)
        seen.append(list(frame.f_code.co_positions())[frame.f_lasti // 2])
        return ""

    names: dict[str, Any] = {"thing": thing, "make": make}
    exec(compile(text, str(path), "exec"), names)
    names["go"]()
    edits: list[Edit] = []
    for line, end_line, col, end_col in seen:
        assert line is not None and end_line is not None and col is not None and end_col is not None
        site = CallSite(
            calls="make", path=str(path), sha256=sha256(path), line=line, end_line=end_line, col=col, end_col=end_col
        )
        edits.append(AddArgument(site=site, keyword="k", value=str(len(edits))))
    new = patch(edits, root=tmp_path).texts[str(path)]
    assert new == text.replace("1,\n", "1,\n            k=0,\n").replace("2)", "2, k=1)").replace(
        "make(3)", "make(3, k=2)"
    ).replace("[4]", "[4], k=3")


@pytest.mark.parametrize(
    "edit",
    [
        lambda site: AddArgument(site=site, keyword="k", value="1, evil=2"),
        lambda site: AddArgument(site=site, keyword="k=1, l", value="2"),
        lambda site: WrapStatement(site=site, header="if x", imports=""),
        lambda site: WrapArgument(site=site, position=0, keyword="params", function="f", imports="f = 1"),
    ],
)
def test_a_lever_that_writes_nonsense_is_our_bug(script: Path, edit: object) -> None:
    (site,) = sites(TEXT, "Adam", path=str(script))
    assert callable(edit)
    with pytest.raises((ValueError, SyntaxError, AssertionError)):
        patch([edit(site)], root=script.parent)

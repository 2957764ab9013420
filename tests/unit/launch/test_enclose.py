"""What a trial sees of the user's folders and leaves in them, whatever their names and whatever is mounted there."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from hotlap.launch import Launcher
from hotlap.record import Plan

# Reads all that it finds below the folder that it runs in, and writes into each folder.
WALK = """
import json, os, sys
found = {}
for root, _, names in os.walk(b"."):
    for name in names:
        path = os.path.join(root, name)
        found[ascii(path)] = open(path, "rb").read(20).decode()
    open(os.path.join(root, b"written"), "w").close()
sys.exit(json.dumps([found, [ascii(word) for word in sys.argv[1:]]]))
"""

NAMES = (
    b"plain", "\u00fcml\u00e4ut \u4e2d\u6587".encode(), b"a b  c ", b"'single\" double'", b"new\nline\ttab", b"a,b:c;d",
    b"back\\slash\\054", b"100%s%%", b"\xff\xfe no utf-8", b"-rf", b"$HOME *?[a]", b"x" * 200,
)  # fmt: skip


def seen(folder: Path, words: Sequence[str] = ()) -> tuple[dict[str, str], list[str]]:
    """What a trial in `folder` finds there, by ascii() of its path, and the words that it got."""
    command = (sys.executable, "-c", WALK, *words)
    with Launcher(environment=lambda plan: {}, folders=[folder], timeout_s=60.0) as launcher:
        (run,) = launcher([Plan(command=command, cwd=str(folder), out="")], limit_s=60.0)
        assert run.exit_code == 1, run.output
        if launcher.not_enclosed:
            pytest.skip(f"this system cannot cover a folder: {launcher.not_enclosed}")
    files, got = json.loads(run.output)
    return files, got


def test_a_folder_and_words_of_any_name_are_the_same_in_a_trial(tmp_path: Path) -> None:
    outer = os.fsencode(tmp_path) + b"/" + b"/".join(NAMES[1:9])
    os.makedirs(outer)
    for name in NAMES:
        with open(outer + b"/" + name, "wb") as file:
            file.write(name[:20].decode("ascii", "replace").encode("ascii", "replace"))
    folder = Path(os.fsdecode(outer))
    files, words = seen(folder, [os.fsdecode(name) for name in NAMES])
    assert set(files) == {ascii(b"./" + name) for name in NAMES}
    assert words == [ascii(os.fsdecode(name)) for name in NAMES]
    assert set(os.listdir(outer)) == set(NAMES)


@pytest.mark.parametrize("locale", ["C", "en_US.ISO-8859-1"])
def test_the_locale_of_a_shell_does_not_matter(locale: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", locale)
    monkeypatch.setenv("PYTHONCOERCECLOCALE", "0")
    folder = tmp_path / "\u00fc"
    folder.mkdir()
    (folder / "\u00e9").write_text("inside")
    assert seen(folder)[0] == {ascii("./\u00e9".encode()): "inside"}


MOUNTED = r"""
import os, subprocess, sys, tempfile
from pathlib import Path

import pytest

from hotlap.errors import UserError
from hotlap.launch import Launcher
from hotlap.record import Plan
from tests.unit.launch.test_enclose import NAMES, seen

top = os.fsencode(sys.argv[1])

def mount(*words):
    subprocess.run([b"mount", *words], check=True)

# File systems of any name within one another, one of them read-only, and a file that is a mount.
folder = top
for name in NAMES:
    folder += b"/" + name
    os.mkdir(folder)
    mount(b"-t", b"tmpfs", b"none", os.path.join(b"./", folder))
    Path(os.fsdecode(folder + b"/data")).write_text("inner")
mount(b"-o", b"remount,ro", folder)
Path(os.fsdecode(top + b"/one")).write_text("covered")
Path(os.fsdecode(top + b"/other")).write_text("bound")
mount(b"--bind", top + b"/other", top + b"/one")

files, _ = seen(Path(sys.argv[1]))
paths = [b"/".join((b".", *NAMES[:k], b"data")) for k in range(1, len(NAMES) + 1)]
assert files == {ascii(path): "inner" for path in paths} | {"b'./one'": "bound", "b'./other'": "bound"}, files
assert not list(Path(sys.argv[1]).rglob("written"))

# Room for what trials write: 20 MB.
small, work = Path(sys.argv[1]) / "small", Path(sys.argv[1]) / "work"
small.mkdir(); work.mkdir()
mount("-t", "tmpfs", "-o", "size=20m", "none", str(small))
os.environ["TMPDIR"] = str(small)
tempfile.tempdir = None

def trials(megabytes, count):
    code = f"open('checkpoint', 'wb').write(bytes({megabytes} << 20)); import time; time.sleep(0.3)"
    plan = Plan(command=(sys.executable, "-c", code), cwd=str(work), out="")
    with Launcher(environment=lambda plan: {}, folders=[work], timeout_s=60.0) as launcher:
        runs = launcher([plan] * count, limit_s=60.0)
        left = [path for path in small.rglob("*") if path.name == "checkpoint"]
    return [run.exit_code for run in runs], left

assert trials(8, 2) == ([0, 0], [])
assert trials(15, 1) == ([0], [])
assert trials(15, 1) == ([0], [])  # the room is there again
with pytest.raises(UserError, match=r"leaves only .* in .*small \(in memory\).*TMPDIR"):
    trials(30, 1)
assert list(small.iterdir()) == []
assert list(work.iterdir()) == []
"""


def test_mounts_of_any_name_are_covered_and_what_is_written_has_its_room(tmp_path: Path) -> None:
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, "--mount", "true"], capture_output=True, check=False).returncode:
        pytest.skip("mounting needs rights that this user has not")
    done = subprocess.run(
        [unshare, "--mount", sys.executable, "-c", MOUNTED, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr

"""The real command in hostile surroundings: a shell's locale, pipes and closed streams, names, folders that go away."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.e2e,
]

HOTLAP = [sys.executable, "-m", "hotlap"]

TRAIN = """\
import os, shutil, sys
here = os.getcwdb()
assert os.fsencode(sys.argv[1]) == b"--name=\\xff \\xc3\\xbc", ascii(sys.argv)
assert here.endswith(b"\\xff"), here
{before}
import torch
weight = torch.zeros(4, requires_grad=True)
for _ in range({steps}):
    loss = (torch.ones(8, 4) @ weight - 1).square().mean()
    (gradient,) = torch.autograd.grad(loss, weight)
    with torch.no_grad():
        weight -= 0.01 * gradient
{after}
"""

WORDS = [b"--name=\xff \xc3\xbc"]


def project(tmp_path: Path, *, steps: int = 1500, before: str = "", after: str = "") -> bytes:
    """A script with an umlaut, a blank and quotes in its name, in a folder whose name is no UTF-8."""
    folder = os.fsencode(tmp_path) + b"/\xc3\xbc, 'a':\"b\" \\%d\n\xff"
    os.mkdir(folder)
    with open(folder + SCRIPT, "w", encoding="utf-8") as file:
        file.write(TRAIN.format(steps=steps, before=before, after=after))
    return folder


SCRIPT = b"/tr\xc3\xa4in 'it'.py"


def shell() -> dict[str, str]:
    """Variables of a shell without a locale, a home, a folder for temporary files, or a terminal worth the name."""
    gone = ("HOME", "XDG_CACHE_HOME", "LANG", "PYTHONUNBUFFERED")
    kept = {name: value for name, value in os.environ.items() if name not in gone}
    kept |= {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    return kept | {"TERM": "dumb", "NO_COLOR": "1", "COLUMNS": "5", "TMPDIR": "/no/such/folder"}


def hotlap(*words: str | bytes, cwd: bytes, closed: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["bash", "-c", f'"$@" {closed}', "bash", *HOTLAP, *words],
        cwd=cwd,
        env=shell(),
        capture_output=True,
        encoding="ascii",
        timeout=300,
        check=False,
    )


def test_a_script_of_any_name_that_deletes_itself_is_measured_from_any_shell(tmp_path: Path) -> None:
    before = "os.chdir('/'); shutil.rmtree(here, ignore_errors=True)"
    folder = project(tmp_path, steps=100_000, before=before)
    done = hotlap("measure", "--quick", "--steps", "8", "--warmup", "2", SCRIPT[1:], *WORDS, cwd=folder, closed="<&-")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Median step" in done.stdout
    assert os.path.exists(folder + SCRIPT)
    (study,) = set(os.listdir(folder + b"/.hotlap")) - {b".gitignore"}
    assert sorted(os.listdir(folder + b"/.hotlap/" + study)) == [b"lock", b"report.html", b"study.json"]


def test_a_whole_training_keeps_its_code_when_its_folder_goes_and_nobody_listens(tmp_path: Path) -> None:
    folder = project(tmp_path, after="os.chdir('/'); shutil.rmtree(here); sys.exit(7)")
    done = hotlap("measure", "--full", SCRIPT[1:], *WORDS, cwd=folder, closed=">&- <&-")
    assert done.returncode == 7, done.stderr
    assert "Time per step" in done.stderr
    assert "hotlap: The study cannot be saved in" in done.stderr
    assert "Traceback" not in done.stderr
    assert not os.path.exists(folder)


@pytest.mark.parametrize("words", [["predict", "--list"], ["--help"]], ids=" ".join)
def test_a_reader_who_has_left_ends_the_command_quietly(words: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [*HOTLAP, *words], env=shell(), stdout=writer, stderr=subprocess.PIPE, timeout=400, check=False
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")

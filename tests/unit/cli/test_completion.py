"""What a shell offers in place of the word that is being typed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hotlap.cli import build_parser
from hotlap.cli.completion import candidates


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("m", ["machine", "mcp", "measure"]),
        ("tune --le", ["--levers"]),
        ("tune --levers mal", ["malloc"]),
        ("tune --skip tf32,mal", ["tf32,malloc"]),
        ("explain sync-", ["sync-bound"]),
        ("lab pin", ["pinning"]),
        ("show --color al", ["always"]),
        ("check --numerics r", ["rounding"]),
        ("completion z", ["zsh"]),
        ("--ver", ["--version"]),
        ("tune --json ", []),
        ("tune train.py --le", []),
        ("tune -m package --le", []),
        ("warp --le", []),
    ],
)
def test_commands_options_and_names_are_offered_and_nothing_of_the_training(typed: str, offered: list[str]) -> None:
    assert candidates(typed.split(" "), build_parser()) == offered


SHELLS = {
    "bash": 'source script; COMP_WORDS=(hotlap tune --le); COMP_CWORD=2; _hotlap; echo "${COMPREPLY[@]}"',
    "zsh": "compdef() {}; compadd() { print -r -- ${(P)2} }; "
    "source script; words=(hotlap tune --le); CURRENT=3; _hotlap",
    "fish": "source script; complete --do-complete 'hotlap tune --le'",
}


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_asks_hotlap_for_what_it_offers(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    program = tmp_path / "hotlap"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m hotlap "$@"\n')
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)}

    def done(*command: str) -> str:
        found = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
        return found.stdout

    (tmp_path / "script").write_text(done("hotlap", "completion", shell))
    assert done(shell, "-c", SHELLS[shell]).split()[:1] == ["--levers"]


def test_without_a_shell_the_shell_alone_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        build_parser().parse_args(["completion"])
    assert capsys.readouterr().err.endswith("arguments are required: shell\n")

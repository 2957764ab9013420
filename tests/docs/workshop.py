"""The folder in which blocks of the docs are run, with a small training script at hand."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import hotlap
from tests.docs.blocks import DATA, PYTHON, ROOT, SHELL, Block, commands

AT_HAND = Path(__file__).with_name("at_hand")
SCRIPTS = ("train.py", "train.sh", "package")

# A block that hangs must not hang the suite. A block of seconds takes minutes on a machine that is busy; the longest
# that is run on purpose are studies.
QUICK_LIMIT_S, LIMIT_S = 500, 1800


class Workshop:
    """One folder, always at the same path, so that what a command left there can be put back for another page."""

    def __init__(self, root: Path, *, quick: bool) -> None:
        self.folder = root / "project"
        self._bin = root / "bin"
        self._kept = root / "kept"
        self._cache = root / "cache"
        self._quick = quick
        self._bin.mkdir()
        (self._bin / "hotlap").symlink_to(AT_HAND / "hotlap")
        (self._bin / "python").symlink_to(sys.executable)

    def clear(self) -> None:
        """As it is in front of each page."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        for name in SCRIPTS:
            _copy(AT_HAND / name, self.folder / name)
        _copy(ROOT / "examples", self.folder / "examples")

    def run(self, blocks: Sequence[Block]) -> None:
        """The blocks of one page in order: files and commands first, then all Python in one process."""
        self.clear()
        for block in blocks:
            if block.title is not None:
                (self.folder / block.title).write_text(block.code, encoding="utf-8")
            elif block.language in SHELL:
                self._shell(block)
            elif block.language in DATA:
                _parse(block)
        python = [block for block in blocks if block.language in PYTHON and block.title is None]
        if python:
            self._python(python)

    def _shell(self, block: Block) -> None:
        """Run it, unless the same commands were run before on the same files: then what they left is put back."""
        kept = self._kept / self._digest(block)
        if kept.exists():
            shutil.rmtree(self.folder)
            _copy(kept, self.folder)
            return
        self._call(["bash", "-euo", "pipefail", "-c", commands(block)], block)
        _copy(self.folder, kept)

    def _python(self, blocks: Sequence[Block]) -> None:
        told = [
            {"page": block.place, "line": block.line, "language": block.language, "code": block.code}
            for block in blocks
        ]
        listed = self.folder.with_name("blocks.json")
        listed.write_text(json.dumps(told), encoding="utf-8")
        command = [sys.executable, str(AT_HAND / "run_blocks.py"), str(AT_HAND / "names.py"), str(listed)]
        self._call(command, blocks[0])

    def _call(self, command: list[str], block: Block) -> None:
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=QUICK_LIMIT_S if self._quick else LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, f"{block.place} left with {done.returncode}:\n{block.code}\n{done.stdout[-20000:]}"

    def _environment(self) -> dict[str, str]:
        source = str(Path(hotlap.__file__).parents[1])
        folders = (source, os.environ.get("PYTHONPATH", ""))
        return {
            **os.environ,
            "PATH": os.pathsep.join((str(self._bin), str(Path(sys.executable).parent), os.environ["PATH"])),
            "PYTHONPATH": os.pathsep.join(filter(None, folders)),
            "XDG_CACHE_HOME": str(self._cache),
            "HOTLAP_CACHE": str(self._cache / "data"),
            "HOTLAP_DOCS_PYTHON": sys.executable,
            "HOTLAP_DOCS_QUICK": "1" if self._quick else "",
        }

    def _digest(self, block: Block) -> str:
        without_comments = re.sub(r"\s+#.*", "", commands(block)).strip()
        digest = hashlib.sha256(without_comments.encode())
        for path in sorted(path for path in self.folder.rglob("*") if path.is_file()):
            digest.update(f"{path.relative_to(self.folder)} {path.stat().st_size}".encode())
            digest.update(path.read_bytes())
        return digest.hexdigest()


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)


def _parse(block: Block) -> None:
    json.loads(block.code) if block.language == "json" else tomllib.loads(block.code)

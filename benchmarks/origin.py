"""Name of a result -> the code that it measures: its commit, and a digest by which a change of it is told.

The digest is of what Python makes of the files, without docstrings: other words make no result older.
"""

import ast
import hashlib
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "src" / "hotlap"

_STUDIES = ("data", "experiment", "gate", "launch", "levers", "probe", "recurrent", "search", "small", "source", "tune")
# Result, as `paste.py` names it -> parts of hotlap; of one that is not named, all but those that only show and predict.
_PARTS: Mapping[str, tuple[str, ...]] = {
    "aa": ("experiment", "launch", "probe", "search", "tune"),
    "aa_replay": ("experiment", "search", "tune"),
    "companions": ("experiment", "search", "tune"),
    "diagnosis": ("probe", "rules"),
    "gate": ("gate",),
    "gate_torch": ("gate", "probe"),
    "gate_edits": ("gate", "probe"),
    "gather": ("data",),
    "images": ("data",),
    "machine": ("machine",),
    "noise": ("launch", "probe"),
    "noise_quiet": ("launch", "probe"),
    "overhead": ("probe",),
    "parsers": ("trace",),
    "ranks": ("probe", "rules"),
    "ranks_aa": ("experiment", "launch", "probe", "search", "tune"),
    "ranks_nodes": ("experiment", "launch", "search", "tune"),
    "ranks_scaling": ("predict",),
    "small": ("small",),
    "starting": ("launch", "probe"),
    "tabular": ("data",),
    "traces": ("rules", "trace"),
}


def of(name: str) -> dict[str, str]:
    """The commit ("+": with changes), and the digest; names of machines behind a dash do not count."""
    said = subprocess.run(
        ["git", "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return {"commit": said.stdout.strip(), "sources": digest(name)}


def digest(name: str) -> str:
    """Of the parts of hotlap that the result measures."""
    seen = hashlib.sha256()
    for part in _PARTS.get(name.partition("-")[0], _STUDIES):
        for path in _files(part):
            seen.update(str(path.relative_to(ROOT)).encode() + b"\0")
            seen.update(_meaning(path) if path.suffix == ".py" else path.read_bytes())
    return seen.hexdigest()[:16]


def _files(part: str) -> Iterator[Path]:
    yield from sorted((SOURCES / part).rglob("*.py")) or [SOURCES / f"{part}.py"]
    yield from sorted((ROOT / "native" / part).glob("*.?pp"))
    if part == "small":  # most of what stands above both is its own
        yield from sorted((ROOT / "native").glob("*.?pp"))


def _meaning(path: Path) -> bytes:
    tree = ast.parse(path.read_bytes())
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [one for one in body if not _is_text(one)]  # type: ignore[attr-defined]
    return ast.dump(tree).encode()


def _is_text(node: ast.AST) -> bool:
    """A docstring, of a field too."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def is_older(name: str, result: Mapping[str, object]) -> bool:
    """The code has changed since, or it was not written down what it was."""
    return result.get("sources") != digest(name)

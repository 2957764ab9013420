"""Would the tests notice? Mutants (small faults, `faults.toml`), planted one by one under the tests of their part.

    python benchmarks/mutants/run.py before 1e6d790     # this commit's sources under its own tests
    python benchmarks/mutants/run.py after HEAD         # the same mutants later
    python benchmarks/mutants/run.py after HEAD --parts gate,clock

A commit is laid out in a temporary folder, which stands first on the path of the tests' process; `inside.py` makes sure
that the mutant is what gets imported. Extension modules are those installed beside this script. An outcome is one of

    killed      a test failed that passes without the mutant
    survived    none did
    gone        the code that the fault would be planted in is not there (any more); says nothing
    unclear     the test that failed fails without the mutant as well, or the tests could not be collected

mutmut and cosmic-ray were considered: they make every mutant that the grammar allows, thousands in these parts, and at
5 to 60 seconds of tests each that is a day; most are of no interest (another text of a message), and none is the same
one after a rebuild. These here are few, each is a mistake that somebody could make, and what they break stays named.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))

import results_file  # noqa: E402 - it stands one folder above

# A mutant may make a test wait for ever. The slowest of these tests takes 35 s on an idle machine.
LIMIT_S = 600
COLUMNS = ("before", "after")

Key = tuple[str, str]
"""(part, fault): what stays the same when the code is spelled anew."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One spelling of a fault."""

    part: str
    fault: str
    file: str
    old: str
    new: str

    def key(self) -> Key:
        """Of the fault."""
        return self.part, self.fault

    def fits(self, folder: Path) -> bool:
        """The code that it is planted in is there, once."""
        path = folder / self.file
        return path.exists() and path.read_text(encoding="utf-8").count(self.old) == 1


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the tests said."""

    word: str
    test: str | None = None
    took_s: float = 0.0


GONE = Outcome("gone")


def lay_out(commit: str, folder: Path) -> None:
    """The files of a commit, and the extension modules of this install."""
    packed = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    for package in (ROOT / "src" / "hotlap", Path(sysconfig.get_path("platlib")) / "hotlap"):
        for built in package.rglob("*.so"):
            place = folder / "src" / "hotlap" / built.relative_to(package)
            if place.parent.is_dir() and not place.exists():
                place.symlink_to(built.resolve())


def run_tests(folder: Path, module: str, words: Sequence[str]) -> Mapping[str, Any]:
    """`code` of pytest and the first `test` that failed; code None where it never came to an end.

    Raises:
        RuntimeError: tests could not be collected, or the copy is not what was imported.
    """
    answer = folder / "answer.json"
    answer.unlink(missing_ok=True)
    shutil.rmtree(folder / ".hypothesis", ignore_errors=True)  # failures of one mutant are no hint for the next
    command = [sys.executable, str(HERE / "inside.py"), str(folder), module, str(answer)]
    command += ["-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=0", "-m", "not e2e and not slow", *words]
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder / "src"), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return {"code": None, "test": None}
    finally:
        with contextlib.suppress(ProcessLookupError):  # workers of a loader may be left, or all of it
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    found: dict[str, Any] = json.loads(answer.read_text()) if answer.exists() else {"code": process.returncode}
    if not answer.exists() or found["code"] not in (0, 1):
        raise RuntimeError(f"pytest {' '.join(words)} ended with {found['code']}:\n{said}")
    return found


def judge(mutant: Mutant, folder: Path, calls: Sequence[str]) -> Outcome:
    """Plant it, run the tests of its part until one fails, and take it out again."""
    path = folder / mutant.file
    whole = path.read_text(encoding="utf-8")
    begin = time.monotonic()
    plant(path, whole.replace(mutant.old, mutant.new))
    try:
        for words in calls:
            found = run_tests(folder, module_of(mutant.file), words.split())
            if found["code"] is None:
                return Outcome("killed", f"{words} (did not end)", time.monotonic() - begin)
            if found["code"]:
                return Outcome("killed", found["test"], time.monotonic() - begin)
        return Outcome("survived", None, time.monotonic() - begin)
    except RuntimeError as error:
        print(error)
        return Outcome("unclear", None, time.monotonic() - begin)
    finally:
        plant(path, whole)


def plant(path: Path, text: str) -> None:
    """Write a source file, and forget its bytecode: that knows seconds and sizes, and a mutant may keep both."""
    path.write_text(text, encoding="utf-8")
    Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)


def module_of(file: str) -> str:
    """src/hotlap/gate/exact.py -> hotlap.gate.exact."""
    return ".".join(Path(file).with_suffix("").parts[1:])


def checked(outcomes: Mapping[Key, Outcome], folder: Path) -> dict[Key, Outcome]:
    """A test that fails without any mutant has killed none."""
    tests = sorted({outcome.test for outcome in outcomes.values() if outcome.test and "::" in outcome.test})
    failing = {test for test in tests if fails(folder, [test])} if tests and fails(folder, tests) else set()
    return {
        key: replace(outcome, word="unclear") if outcome.test in failing else outcome
        for key, outcome in outcomes.items()
    }


def fails(folder: Path, tests: Sequence[str]) -> bool:
    """One of these tests does, without a mutant."""
    return bool(run_tests(folder, "hotlap", tests)["code"])


def rows(
    faults: Iterable[Key], found: Iterable[Mapping[str, Any]], told: Mapping[str, Mapping[Key, Outcome]]
) -> list[Any]:
    """One row a fault; `found`: the rows of an earlier result, which hold the other column."""
    known = {(row["part"], row["fault"]): row for row in found}
    return [
        {"part": part, "fault": fault, **cells(known.get((part, fault), {}), told, (part, fault))}
        for part, fault in dict.fromkeys(faults)
    ]


def cells(known: Mapping[str, Any], told: Mapping[str, Mapping[Key, Outcome]], key: Key) -> dict[str, Any]:
    """The outcome in each column, which test it was, and seconds until then."""
    made: dict[str, Any] = {}
    for column in COLUMNS:
        outcome = told.get(column, {}).get(key)
        new = (outcome.word, outcome.test, round(outcome.took_s, 1)) if outcome else None
        for name, value in zip((column, f"{column}_test", f"{column}_took_s"), new or (None,) * 3, strict=True):
            made[name] = value if new else known.get(name)
    return made


def main() -> None:
    """Judge all mutants of some parts, and write the column."""
    table = tomllib.loads((HERE / "faults.toml").read_text(encoding="utf-8"))
    tests, mutants = table["tests"], [Mutant(**entry) for entry in table["mutant"]]
    parser = argparse.ArgumentParser(description="Mutants under the tests of their parts.")
    parser.add_argument("column", choices=COLUMNS)
    parser.add_argument("commit", help="whose sources and tests")
    parser.add_argument("--parts", default=",".join(tests), help="separated by commas (default: all)")
    args = parser.parse_args()
    outcomes: dict[Key, Outcome] = {}
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        folder = Path(name).resolve()
        lay_out(args.commit, folder)
        for mutant in mutants:
            if mutant.part not in args.parts.split(",") or outcomes.get(mutant.key(), GONE) != GONE:
                continue
            outcome = judge(mutant, folder, tests[mutant.part]) if mutant.fits(folder) else GONE
            outcomes[mutant.key()] = outcome
            print(
                f"{outcome.word:9} {outcome.took_s:4.0f} s  {mutant.part}: {mutant.fault}  [{outcome.test}]", flush=True
            )
        outcomes = checked(outcomes, folder)
    for outcome in outcomes.values():
        if outcome.word == "unclear":
            print(f"fails without any mutant as well: {outcome.test}")
    write(args.column, args.commit, [mutant.key() for mutant in mutants], outcomes)


def write(column: str, commit: str, faults: Sequence[Key], outcomes: Mapping[Key, Outcome]) -> None:
    """The result, in which the other column stays as it was."""
    path = results_file.RESULTS / "mutants.json"
    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    whole = subprocess.run(["git", "rev-parse", commit], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    written = results_file.write(
        "mutants",
        commits={**found.get("commits", {}), column: whole.strip()},
        results=rows(faults, found.get("results", []), {column: outcomes}),
    )
    written.replace(path)


if __name__ == "__main__":
    main()

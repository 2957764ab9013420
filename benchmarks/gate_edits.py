"""Edits as people make them: how many harmful ones does the gate catch, and what does it do to harmless ones?

    python benchmarks/gate_edits.py [--scripts NAMES] [--contracts NAMES] [--steps N] [--records DIR]

Ten scripts (`benchmarks/faults/edited`), each under every edit of `benchmarks/faults/edits.py`, by way of the real
probe and the real plans of a study, as in `gate_torch.py`, with a second look at what a statistical test found. Writes
`benchmarks/results/gate_edits-<device>.json` where all was asked for; that takes about two hours. With `--records` the
runs are kept in a folder, and only what is not there is run.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

# One thread, as the operators are far too small for two; and before torch is there.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("PYTHONHASHSEED", "0")

import results_file
from aa import Silent
from faults.edits import EDITS, EVERY, SCRIPTS, Edit
from faults.recording import Recorder
from gate_torch import SIZES, names
from hotlap import machine
from hotlap.gate import Ruling
from hotlap.levers import Numerics
from hotlap.record import Study, Verdict
from hotlap.search import GateRuns, Options, StudyLog

ALL_SCRIPTS = sorted({edit.script for edit in EDITS})
Found = dict[tuple[Edit, str], Ruling]


def gate_of(script: str, records: Path, steps: int) -> GateRuns:
    """Keeps the runs of a script as it is."""
    path = SCRIPTS / f"{script}.py"
    options = Options(command=(sys.executable, str(path)), cwd=str(SCRIPTS), title=path.name, budget_s=1e6)
    study = Study(command=options.command, cwd=options.cwd, created="", key="")
    recorder = Recorder(records, {str(path): path.read_text(encoding="utf-8")})
    log = StudyLog(study, options, machine.look(), recorder, Silent())
    return GateRuns(log, log.executor(replace(SIZES, evidence_steps=steps)))


def wanted(edit: Edit) -> Verdict:
    return Verdict.HARMED if edit.is_harm else Verdict.UNHARMED


def judged(
    scripts: list[str], contracts: list[str], *, records: Path, steps: int
) -> Iterator[tuple[Edit, str, Ruling]]:
    """All that was asked for, script by script."""
    for script in scripts:
        gate = gate_of(script, records, steps)
        for contract in contracts:
            for edit in EDITS:
                if edit.script == script and contract in edit.contracts:
                    replaced = {str(SCRIPTS / f"{script}.py"): edit.text()}
                    yield edit, contract, gate.judge((), replaced=replaced, numerics=Numerics(contract))


def rows(found: Found) -> list[dict[str, object]]:
    """One row an edit; a column a contract."""
    edits = dict.fromkeys(edit for edit, _ in found)
    return [
        {
            "script": edit.script,
            "edit": edit.title,
            "wanted": str(wanted(edit)),
            **{name: str(found[edit, name].verdict) if (edit, name) in found else "" for name in EVERY},
        }
        for edit in edits
    ]


def claims(found: Found) -> Iterator[dict[str, object]]:
    """How many of all, by contract."""
    for contract in EVERY:
        for is_harm, what in ((True, "harmful ones caught"), (False, "harmless ones passed")):
            right = [
                ruling.verdict is wanted(edit)
                for (edit, name), ruling in found.items()
                if name == contract and edit.is_harm is is_harm
            ]
            if right:
                claim = f"{contract}, edits of torch scripts: {what} (of {len(right)})"
                yield {"claim": claim, "mid": 100 * sum(right) / len(right), "unit": "%"}


def main() -> None:
    """Judge what was asked for; write the result of all."""
    parser = argparse.ArgumentParser(description="Edits of real torch trainings, judged by the gate.")
    parser.add_argument("--scripts", default="", help="only these, separated by commas")
    parser.add_argument("--contracts", default="", help="only these, separated by commas")
    parser.add_argument("--steps", type=int, default=SIZES.evidence_steps, help="of each run (default: %(default)s)")
    parser.add_argument("--records", type=Path, help="keep the runs here, and run only what is not there")
    args = parser.parse_args()
    scripts = names(args.scripts, ALL_SCRIPTS) or ALL_SCRIPTS
    contracts = names(args.contracts, EVERY) or list(EVERY)
    found: Found = {}
    with tempfile.TemporaryDirectory() as folder:
        for edit, contract, ruling in judged(
            scripts, contracts, records=args.records or Path(folder), steps=args.steps
        ):
            found[edit, contract] = ruling
            mark = "ok" if ruling.verdict is wanted(edit) else "WRONG"
            print(
                f"{mark:5} {edit.script:14} {contract:11} {edit.title:30} {ruling.verdict:9} {ruling.why}", flush=True
            )
    for claim in claims(found):
        print(claim)
    if not args.scripts and not args.contracts and args.steps == SIZES.evidence_steps:
        results_file.write("gate_edits", results=rows(found), claims=list(claims(found)))


if __name__ == "__main__":
    main()

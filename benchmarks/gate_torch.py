"""Injected faults in real torch trainings: how many does the gate catch, and what does it do to harmless changes?

    python benchmarks/gate_torch.py [--scripts NAMES] [--changes NAMES] [--contracts NAMES] [--records DIR]

Six scripts (`benchmarks/faults/scripts`), each under every change of `benchmarks/faults/injected.py` that concerns it,
by way of the real probe and the real plans of `hotlap tune` (`hotlap.search.gate_runs.GateRuns`): 400 steps, as the
default budget gives to steps below 12.5 ms, and as many runs and seeds as a study makes. Writes
`benchmarks/results/gate_torch.json`, in which what was not asked for stays as it is; a script takes about ten minutes a
contract. With `--records` the runs are kept in a folder, and only what is not there is run.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

# One thread, as the operators are far too small for two; and before torch is there.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("PYTHONHASHSEED", "0")

import results_file
from aa import Silent
from faults.injected import ALL_CONTRACTS, EVERY_SCRIPT, HARMLESS, HARMS, Change
from faults.recording import Recorder
from hotlap import machine
from hotlap.experiment import Sizes
from hotlap.gate import Ruling
from hotlap.record import Study, Verdict
from hotlap.search import GateRuns, Options, StudyLog

HERE = Path(__file__).resolve().parent
SCRIPTS = HERE / "faults" / "scripts"
# A lever of each contract: the gate asks a stack of levers what it promises. (None is installed in a planted run.)
PROMISES = {"exact": (), "rounding": ({"name": "fused-optimizer"},), "statistical": ({"name": "bf16-autocast"},)}
# 400 steps: what the default budget gives to steps below 12.5 ms.
SIZES = Sizes(step_s=0.002, setup_s=2.0, block=11, steps=66, warmup=20, evidence_steps=400, together=1, cores=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One change in one script under one contract."""

    name: str
    change: Change
    script: str
    contract: str
    is_harm: bool


def cases(scripts: list[str], names: list[str], contracts: list[str]) -> Iterator[Case]:
    """All that were asked for; a script's together, so that its runs as written are made once."""
    for script in scripts:
        for planted, is_harm in ((HARMS, True), (HARMLESS, False)):
            for name, change in planted.items():
                if script not in change.scripts or (names and name not in names):
                    continue
                for contract in contracts:
                    if contract in change.contracts:
                        yield Case(name=name, change=change, script=script, contract=contract, is_harm=is_harm)


class Bench:
    """Judges cases; keeps the gate runs of each script."""

    def __init__(self, records: Path, sizes: Sizes) -> None:
        self._records = records
        self._sizes = sizes
        self._gates: dict[str, GateRuns] = {}

    def judge(self, case: Case) -> Ruling:
        """What a study would say of a lever that does this."""
        path = SCRIPTS / f"{case.script}.py"
        text = path.read_text(encoding="utf-8")
        if case.script not in self._gates:
            # Time for a second look at each case, as a study finds it by going on beyond its budget.
            options = Options(command=(sys.executable, str(path)), cwd=str(SCRIPTS), title=path.name, budget_s=1e6)
            study = Study(command=options.command, cwd=options.cwd, created="", key="")
            recorder = Recorder(self._records, {str(path): text})
            log = StudyLog(study, options, machine.look(), recorder, Silent())
            self._gates[case.script] = GateRuns(log, log.executor(self._sizes))
        planting = (
            f"import sys; sys.path.insert(0, {str(HERE)!r}); from faults.injected import plant; plant({case.name!r})"
        )
        return self._gates[case.script].judge(PROMISES[case.contract], replaced={str(path): f"{planting}\n{text}"})


def table(found: Mapping[Case, Ruling]) -> list[dict[str, object]]:
    """One row a change, harms first; a column a contract: "5 of 5" scripts were given the verdict that is wanted."""
    rows: dict[str, dict[str, object]] = {}
    for case in sorted(found, key=lambda case: not case.is_harm):
        wanted = Verdict.HARMED if case.is_harm else Verdict.UNHARMED
        row = rows.setdefault(case.name, {"change": case.change.title, "wanted": str(wanted)})
        same = [r.verdict for c, r in found.items() if (c.name, c.contract) == (case.name, case.contract)]
        row[case.contract] = f"{same.count(wanted)} of {len(same)}"
        if same.count(Verdict.UNDECIDED):
            row[case.contract] = f"{row[case.contract]}, {same.count(Verdict.UNDECIDED)} undecided"
    return [{key: row.get(key, "") for key in ("change", "wanted", *ALL_CONTRACTS)} for row in rows.values()]


def claims(found: Mapping[Case, Ruling]) -> Iterator[dict[str, object]]:
    """How many of all, by contract."""
    for contract in ALL_CONTRACTS:
        for is_harm, wanted, what in (
            (True, Verdict.HARMED, "injected faults caught"),
            (False, Verdict.UNHARMED, "harmless changes passed"),
        ):
            verdicts = [r.verdict for c, r in found.items() if c.contract == contract and c.is_harm is is_harm]
            if verdicts:
                share = 100 * verdicts.count(wanted) / len(verdicts)
                claim = f"{contract}, torch scripts: {what} (of {len(verdicts)})"
                yield {"claim": claim, "mid": share, "unit": "%"}


def earlier() -> dict[Case, Ruling]:
    """The rulings that are written already."""
    path = results_file.RESULTS / "gate_torch.json"
    cases = json.loads(path.read_text(encoding="utf-8"))["cases"] if path.is_file() else []
    return {
        Case(
            name=case["change"],
            change=(HARMS | HARMLESS)[case["change"]],
            script=case["script"],
            contract=case["contract"],
            is_harm=case["is_harm"],
        ): Ruling(verdict=Verdict(case["verdict"]), why=case["why"])
        for case in cases
        if case["change"] in HARMS | HARMLESS
    }


def write(found: Mapping[Case, Ruling]) -> None:
    """The tables, and every single ruling."""
    written = results_file.write(
        "gate_torch",
        adds_to=results_file.RESULTS / "gate_torch.json",
        results=table(found),
        claims=list(claims(found)),
        cases=[
            {
                "change": case.name,
                "script": case.script,
                "contract": case.contract,
                "is_harm": case.is_harm,
                "verdict": str(ruling.verdict),
                "why": ruling.why,
            }
            for case, ruling in found.items()
        ],
    )
    written.replace(written.with_name("gate_torch.json"))


def names(text: str, known: Iterable[str]) -> list[str]:
    """ "a,b" -> names, each of them known."""
    found = [name for name in text.split(",") if name]
    unknown = sorted(set(found) - set(known))
    if unknown:
        sys.exit(f"{unknown[0]!r} is not known; there are {', '.join(known)}.")
    return found


def main() -> None:
    """Judge all cases that were asked for, and write the result."""
    parser = argparse.ArgumentParser(description="Injected faults in real torch trainings, judged by the gate.")
    parser.add_argument("--scripts", default="", help="only these, separated by commas")
    parser.add_argument("--changes", default="", help="only these, separated by commas")
    parser.add_argument("--contracts", default="", help="only these, separated by commas")
    parser.add_argument("--steps", type=int, default=SIZES.evidence_steps, help="of each run (default: %(default)s)")
    parser.add_argument("--records", type=Path, help="keep the runs here, and run only what is not there")
    args = parser.parse_args()
    scripts = names(args.scripts, EVERY_SCRIPT) or list(EVERY_SCRIPT)
    changes = names(args.changes, HARMS | HARMLESS)
    contracts = names(args.contracts, ALL_CONTRACTS) or list(ALL_CONTRACTS)
    found: dict[Case, Ruling] = {}
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(args.records or Path(folder), replace(SIZES, evidence_steps=args.steps))
        for case in cases(scripts, changes, contracts):
            ruling = found[case] = bench.judge(case)
            wrong = ruling.verdict is not (Verdict.HARMED if case.is_harm else Verdict.UNHARMED)
            mark = "WRONG" if wrong else "ok"
            print(
                f"{mark:5} {case.script:12} {case.contract:12} {case.name:22} {ruling.verdict:9} {ruling.why}",
                flush=True,
            )
    for claim in claims(found):
        print(claim)
    if args.steps == SIZES.evidence_steps:
        write(earlier() | found)


if __name__ == "__main__":
    main()

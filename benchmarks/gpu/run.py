"""What hotlap says and does on the device of this machine -> results/gpu-<device>.json and .md; see benchmarks/gpu.sh.

    python run.py [suite] [machine] [plain] [measure] [raw] [levers] [tune] [--budget TIME] [--trainings NAME ...]

Without names: all but `levers`, which holds each lever alone to the gate (several studies at a time, so their times say
little), and `tune`, which takes that time for each of the trainings. After each command the two files are written,
so whatever ends early leaves what came before; a command that fails is noted, and the others follow.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from math import exp
from pathlib import Path
from statistics import mean, median
from threading import Lock
from typing import Any

import torch

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))
import results_file  # noqa: E402 - a file of the folder above

DEVICE = os.environ.get("HOTLAP_DEVICE", "cuda")
RECORDED = Path(os.environ.get("HOTLAP_RECORDED", ROOT / "tests" / "recorded"))
if DEVICE == "sim":
    results_file.RESULTS = RECORDED
TRAININGS = ("mnist", "conv-amp", "gpt-10m", "gpt-124m", "lstm", "ode", "images", "ranks")
# The seventh trains on pictures that Python makes one by one; the eighth is a process for each GPU, under torchrun. One
# more, "digits", is the script of benchmarks/track, on MNIST in the folder $HOTLAP_DATA.
SCRIPTS = ROOT / "tests" / "device" / "scripts"
# Of these a few thousand steps take seconds.
QUICK = ("mnist", "lstm")
STAGES = ("suite", "machine", "plain", "measure", "raw", "levers", "tune")
# Each has something to win there.
LEVERS = {
    "gpt-10m": ("tf32", "bf16-autocast"),
    "mnist": ("fused-optimizer", "pin-and-overlap", "compile", "batched-fetch"),
    "conv-amp": ("channels-last", "cudnn-benchmark"),
    "lstm": ("compile",),
    "images": ("device-resident", "cached-dataset"),
}
# Studies at a time.
BESIDE = 10
HOTLAP = (sys.executable, "-m", "hotlap")
# Commands' last words that are kept.
TAIL = 4000

Result = dict[str, Any]


class Report:
    """All results so far, and the two files; what this run does not make again stays as it was."""

    def __init__(self) -> None:
        path = results_file.path("gpu")
        self._results: list[Result] = json.loads(path.read_text())["commands"] if path.exists() else []
        self._lock = Lock()
        self.failed: list[str] = []
        """Names of commands that did not end well."""

    def note(self, name: str, **saw: Any) -> None:
        """What follows from commands."""
        self._add({"name": name, "exit_code": 0, "took_s": 0.0, "saw": saw, "tail": ""})

    def run(self, name: str, *command: str, limit_s: float, document: Path | None = None) -> float:
        """A command, and what it leaves as JSON; seconds. One that hangs must not take the time of those behind it."""
        print(f"== {name}", flush=True)
        begun = time.monotonic()
        if document is not None:
            document.unlink(missing_ok=True)
        try:
            done = subprocess.run(
                command,
                cwd=RECORDED,
                capture_output=True,
                text=True,
                timeout=limit_s,
                check=False,
                stdin=subprocess.DEVNULL,
            )
            code, words = done.returncode, f"{done.stdout}\n{done.stderr}"
        except subprocess.TimeoutExpired as late:
            code, words = None, f"no end within {limit_s:.0f} s\n{late.stdout or ''}\n{late.stderr or ''}"
        took_s = time.monotonic() - begun
        found: Result = {"name": name, "exit_code": code, "took_s": round(took_s, 1)}
        words = portable(words)
        if document is not None and document.exists():
            document.write_text(portable(document.read_text()))
            found["saw"] = digest(json.loads(document.read_text()))
        if code != 0:
            print(f"   exit code {code}: {words[-TAIL:]}", file=sys.stderr)
            self.failed.append(name)
        self._add({**found, "tail": words[-TAIL:]})
        return took_s

    def _add(self, result: Result) -> None:
        with self._lock:
            kept = [one for one in self._results if one["name"] != result["name"]]
            self._results = [*kept, {**result, "date": datetime.now(UTC).date().isoformat()}]
            self._write()

    def _write(self) -> None:
        path = results_file.write(
            "gpu", adds_to=results_file.path("gpu"), commands=self._results, claims=list(claims(self._results))
        )
        rows = "".join(f"| {' | '.join(row(one))} |\n" for one in self._results)
        head = "| command | exit code | took | step | device busy | its phases | findings | accepted |\n"
        path.with_suffix(".md").write_text(f"# {path.stem}\n\n{head}{'|---' * 8}|\n{rows}")


def portable(text: str) -> str:
    """Without the folders of this machine."""
    return text.replace(f"{ROOT}/", "").replace(sys.prefix, "python")


def plain(report: Report, trainings: Sequence[str]) -> None:
    """What a step takes with no hotlap beside it: of two lengths of the same training the difference."""
    few, many = 500, 3000
    for training in trainings:
        took_s = []
        for steps in (few, many):
            words = (sys.executable, str(HERE / "training.py"), training, "--steps", str(steps))
            took_s.append(report.run(f"plain {training} {steps}", *words, limit_s=100.0))
        report.note(f"plain {training}", step_s=(took_s[1] - took_s[0]) / (many - few))


def digest(study: Result) -> Result:
    """Of a study's JSON what is worth a row; nothing of any other JSON."""
    if "baseline" not in study:
        return {}
    run, result = study["baseline"][0], study["result"] or {}
    window = run["operators"] or {}
    phases = {phase: sum(column) / len(column) for phase, column in run["device_phase_s"].items() if column}
    return {
        "device": run["device"],
        "step_s": median(run["step_s"]),
        "probe_s": run["probe_s"],
        "device_busy_s": window.get("device_busy_s"),
        "why_not": window.get("why_not"),
        "device_phase_s": phases,
        "findings": [finding["code"] for finding in study["findings"]],
        "accepted": [lever["name"] for lever in result.get("levers", ())],
        "speedup": result.get("speedup"),
        "judged": {names(trial): judged(trial) for trial in study["trials"] if trial["log_ratios"]},
        "seen": {names(trial): exp(mean(trial["log_ratios"])) for trial in study["trials"] if trial["log_ratios"]},
        "notes": run["notes"],
    }


def names(trial: Result) -> str:
    """ "tf32 + compile"; of the patched script at a study's end "tf32 + compile, patched"."""
    return " + ".join(lever["name"] for lever in trial["levers"]) + ", patched" * (trial["kind"] == "patch")


def judged(trial: Result) -> str:
    """What the gate said, or why it was not asked."""
    return f"{trial['verdict'].lower()}: {trial['why']}"


def claims(results: Sequence[Result]) -> Iterator[Result]:
    """What pages may say of them: median steps, and what trials saw (no interval: too few processes for one)."""
    for one in results:
        saw = one.get("saw") or {}
        if "step_s" in saw:
            yield {"claim": f"{one['name']}: median step", "mid": 1e3 * saw["step_s"], "unit": " ms"}
        for lever, ratio in saw.get("seen", {}).items():
            passed = saw.get("judged", {}).get(lever, "").startswith("unharmed")
            gate = "the gate passes it" if passed else "before any gate"
            yield {"claim": f"{one['name']}: {lever}, a step, {gate}", "mid": ratio, "unit": "x"}


def row(one: Result) -> Iterator[str]:
    """Cells of a command."""
    saw = one.get("saw") or {}
    phases = saw.get("device_phase_s", {})
    # What the stream works through: in the others it waits for the host.
    works = sum(seconds for phase, seconds in phases.items() if phase not in ("input", "sync", "other"))
    yield from (one["name"], str(one["exit_code"]), f"{one['took_s']} s")
    yield from (ms(saw.get("step_s")), ms(saw.get("device_busy_s")), ms(works or None))
    yield from (", ".join(saw.get("findings", ())), ", ".join(saw.get("accepted", ())))


def ms(seconds: float | None) -> str:
    return "" if seconds is None else f"{1e3 * seconds:.3f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stages", nargs="*", help=f"of {', '.join(STAGES)}")
    parser.add_argument("--budget", default="5m", help="of each training in `tune` (default: 5m)")
    trainings = (*TRAININGS, "digits")
    parser.add_argument("--trainings", nargs="+", choices=trainings, default=TRAININGS, help="default: all but digits")
    parser.add_argument("--levers", help="of `tune`, separated by commas (default: all)")
    args = parser.parse_args()
    stages = args.stages or STAGES[:-2]
    if not set(stages) <= set(STAGES):
        parser.error(f"a stage is one of {', '.join(STAGES)}")
    RECORDED.mkdir(parents=True, exist_ok=True)
    report = Report()
    for stage in STAGES:
        if stage in stages:
            made(stage, report, args.trainings, budget=args.budget, levers=args.levers)
    if report.failed:
        sys.exit(f"failed: {', '.join(report.failed)}")


def made(stage: str, report: Report, trainings: Sequence[str], *, budget: str, levers: str | None) -> None:
    """One stage."""
    match stage:
        case "suite":
            files = ("device/suite.py", "device/levers.py", "e2e/test_machine.py", "unit/data/gather/test_resident.py")
            paths = [str(ROOT / "tests" / path) for path in files]
            suite = ("-q", "-rs", "-p", "no:cacheprovider", "-m", "gpu", *paths)
            report.run(
                "suite", sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), *suite, limit_s=250.0
            )
        case "machine":
            report.run("machine", *HOTLAP, "machine", "--json", "machine.json", limit_s=60.0)
        case "plain":
            plain(report, [training for training in trainings if training in QUICK])
        case "measure":
            studies(report, "measure", "--quick", trainings=trainings, limit_s=100.0)
        case "raw":
            report.run("raw", sys.executable, str(HERE / "raw.py"), ".", limit_s=60.0)
        case "levers":
            alone(report, [(name, lever) for name in trainings for lever in LEVERS.get(name, ())], budget=budget)
        case "tune":
            only = () if levers is None else ("--levers", levers)
            studies(report, "tune", "--budget", budget, *only, trainings=trainings, limit_s=1800.0)


def script(training: str) -> tuple[str, ...]:
    """The path of its script, and arguments."""
    if training == "digits":
        return (str(HERE.parent / "track" / "digits" / "train.py"), "--data", os.environ["HOTLAP_DATA"])
    if training == "images":
        return (str(SCRIPTS / "images.py"),)
    if training == "ranks":
        torchrun, count = str(Path(sys.executable).with_name("torchrun")), max(1, torch.cuda.device_count())
        return ("--", torchrun, "--nproc-per-node", str(count), str(SCRIPTS / "ranks.py"))
    return (str(HERE / "training.py"), training)


def alone(report: Report, pairs: Sequence[tuple[str, str]], *, budget: str) -> None:
    """Of each training and lever a study that tries nothing else."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(BESIDE) as pool:

        def study(training: str, lever: str) -> None:
            document = Path(folder) / f"{training}-{lever}.json"
            options = ("--levers", lever, "--budget", budget, "--json", str(document))
            command = (*HOTLAP, "tune", *options, *script(training))
            report.run(f"{lever} of {training}", *command, limit_s=1800.0, document=document)

        for done in [pool.submit(study, *pair) for pair in pairs]:
            done.result()


def studies(report: Report, command: str, *options: str, trainings: Sequence[str], limit_s: float) -> None:
    """Of each training one."""
    for training in trainings:
        document = f"{command}-{training}.json"
        words = (command, *options, "--json", document, *script(training))
        report.run(f"{command} {training}", *HOTLAP, *words, limit_s=limit_s, document=RECORDED / document)


if __name__ == "__main__":
    main()

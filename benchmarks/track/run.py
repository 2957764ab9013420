"""Ten scripts side by side: as written, under hotlap's accepted patch, tuned by an expert, by the peers' recipes.

    python benchmarks/track/run.py [NAME ...] [--data DIR] [--rounds N] [--budget TIME]

For each script one study (`hotlap tune`, `hotlap apply`), then whole runs of all variants in turn, forwards and
backwards, one round after the other; the ratio of total time that the study told stands beside that of a stopwatch. A
script says after each epoch how many samples it took and how long; the steady rate is the median over all epochs but
the first, which holds compiling, caches and decoding, and is counted in the whole time. Writes
`benchmarks/results/track-<device>.json`; scripts that are not named keep their last result. Lightning, transformers and
accelerate are in the dependency group `frameworks`.
"""

import argparse
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from recipes import RECIPES, script

import results_file
from hotlap.experiment import statistics as intervals

EPOCH = re.compile(r"^epoch \d+: loss (\S+), (\d+) samples in ([0-9.]+) s$", re.MULTILINE)
# As long as any run may take; the longest, unchanged, take about a minute on two cores.
LIMIT_S = 1200


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One whole run of one variant."""

    sample_s: float
    """Median over all epochs but the first: seconds a sample."""
    whole_s: float
    """Seconds of all epochs, the first included; starting Python and importing torch are not."""
    total_s: float
    """By a stopwatch outside, from the start of the command to its end."""
    loss: float
    """Of the last epoch."""


def run(path: Path, data: Path) -> Outcome | str:
    """One run to its end; why there is no result, if there is none."""
    command = [sys.executable, path.name, "--data", str(data)]
    begun = time.perf_counter()
    try:
        done = subprocess.run(command, cwd=path.parent, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return f"took longer than {LIMIT_S} s"
    total_s = time.perf_counter() - begun
    epochs = [(float(loss), int(count), float(seconds)) for loss, count, seconds in EPOCH.findall(done.stdout)]
    if done.returncode or len(epochs) < 2:
        return (done.stderr.strip().splitlines() or ["said nothing of its epochs"])[-1][:300]
    return Outcome(
        sample_s=statistics.median(seconds / count for _, count, seconds in epochs[1:]),
        whole_s=sum(seconds for _, _, seconds in epochs),
        total_s=total_s,
        loss=epochs[-1][0],
    )


class Entry:
    """One script with all its variants, in a folder of its own."""

    def __init__(self, name: str, folder: Path, data: Path, *, others: bool) -> None:
        """`others`: the expert's and the recipes' as well."""
        self.name = name
        self._data = data
        self._folder = folder
        self.paths: dict[str, Path] = {}
        self.failed: dict[str, str] = {}
        self.outcomes: dict[str, list[Outcome]] = {}
        for variant in ("written", "hotlap", *(("expert", *RECIPES[name]) if others else ())):
            place = folder / variant
            shutil.copytree(HERE / name, place, ignore=shutil.ignore_patterns("__pycache__"))
            self.paths[variant] = place / ("expert.py" if variant == "expert" else "train.py")
            if variant in RECIPES[name]:
                self.paths[variant].write_text(script(name, variant), encoding="utf-8")

    def tune(self, budget: str | None) -> dict[str, Any]:
        """The study; its patch is applied in the folder "hotlap"."""
        place = self.paths["hotlap"].parent
        begun = time.perf_counter()
        study, told = _hotlap(
            "tune", "--fresh", "--timeout", "600", *(["--budget", budget] if budget else []), "--json", "-",
            "train.py", "--data", str(self._data), cwd=place,
        )  # fmt: skip
        seconds = time.perf_counter() - begun
        if study is None:
            self.failed["hotlap"] = told
            return {"study_s": seconds, "failed": told}
        if study["patch"]:
            applied = subprocess.run(
                [sys.executable, "-m", "hotlap", "apply"], cwd=place, capture_output=True, text=True, check=False
            )
            if applied.returncode:
                self.failed["hotlap"] = f"hotlap apply: {applied.stderr.strip()[-300:]}"
        return {"study_s": seconds} | _told(study)

    def round(self, *, backwards: bool) -> None:
        """Every variant once."""
        for variant in reversed(self.paths) if backwards else self.paths:
            if variant in self.failed:
                continue
            found = run(self.paths[variant], self._data)
            print(f"  {self.name:14} {variant:10} {found}", flush=True)
            if isinstance(found, str):
                self.failed[variant] = found
            else:
                self.outcomes.setdefault(variant, []).append(found)

    def row(self, study: Mapping[str, Any]) -> dict[str, Any]:
        """Speed-ups over the script as written, with intervals over rounds."""
        row: dict[str, Any] = {"script": self.name}
        recipes = {name: self._speedup(name) for name in RECIPES[self.name]}
        for variant in ("hotlap", "expert", *RECIPES[self.name]):
            row[variant] = _shown(self._speedup(variant)) or f"failed: {self.failed.get(variant, 'did not run')}"[:80]
        mine, best = self._speedup("hotlap"), self._speedup("expert")
        row["of_expert"] = mine["mid"] / best["mid"] if mine and best else None
        steady = recipes | {"hotlap": mine}
        row["ahead_of_recipes"] = bool(study.get("levers") and mine and _is_ahead({"steady": steady}))
        row["total"] = _shown(self._speedup("hotlap", part="total"))
        row["total_claimed"] = _shown(study.get("claimed_total"))
        row["verdict"] = study.get("verdict", "")
        row["study_s"] = study["study_s"]
        return row

    def details(self, study: Mapping[str, Any]) -> dict[str, Any]:
        """Everything: every run, every interval, what the study said."""
        return {
            "study": dict(study),
            "failed": self.failed,
            "steady": {variant: self._speedup(variant) for variant in self.paths if variant != "written"},
            "whole": {variant: self._speedup(variant, part="whole") for variant in self.paths if variant != "written"},
            "total": {variant: self._speedup(variant, part="total") for variant in self.paths if variant != "written"},
            "runs": {variant: [asdict(outcome) for outcome in outcomes] for variant, outcomes in self.outcomes.items()},
        }

    def _speedup(self, variant: str, *, part: str = "sample") -> dict[str, float | None] | None:
        """Over the script as written, from runs of the same round; `part` of an outcome: sample, whole or total."""
        pairs = list(zip(self.outcomes.get("written", ()), self.outcomes.get(variant, ()), strict=False))
        took = [(getattr(mine, f"{part}_s"), getattr(other, f"{part}_s")) for mine, other in pairs]
        ratios = [math.log(mine_s / other_s) for mine_s, other_s in took]
        if not ratios:
            return None
        interval = intervals.interval(ratios, pooled_variance=None) if len(ratios) > 1 else None
        return {
            "low": interval.low if interval else None,
            "mid": math.exp(statistics.fmean(ratios)),
            "high": interval.high if interval else None,
        }


def _hotlap(*words: str, cwd: Path) -> tuple[dict[str, Any] | None, str]:
    """(JSON that it wrote, nothing) or (nothing, the end of what it said)."""
    done = subprocess.run(
        [sys.executable, "-m", "hotlap", *words], cwd=cwd, capture_output=True, text=True, check=False
    )
    try:
        return json.loads(done.stdout), ""
    except json.JSONDecodeError:
        return None, done.stderr.strip()[-500:] or f"exit code {done.returncode}"


def _told(study: Mapping[str, Any]) -> dict[str, Any]:
    result = study["result"] or {}
    return {
        "verdict": result.get("verdict", ""),
        "why": result.get("why", ""),
        "levers": [lever["name"] for lever in result.get("levers", ())],
        "claimed": result.get("speedup"),
        "claimed_total": result.get("total_speedup"),
        "elapsed_s": study["elapsed_s"],
        "findings": [finding["code"] for finding in study["findings"]],
        "warnings": study.get("warnings", []),
        "trials": [
            {key: trial[key] for key in ("levers", "kind", "speedup", "verdict", "accepted", "why")}
            for trial in study["trials"]
        ],
    }


def _shown(speedup: Mapping[str, float | None] | None) -> str:
    if not speedup:
        return ""
    if speedup["low"] is None:
        return f"{speedup['mid']:.2f}x"
    return f"{speedup['mid']:.2f}x [{speedup['low']:.2f}, {speedup['high']:.2f}]"


def claims(rows: Sequence[Mapping[str, Any]], details: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The goals of the track. A script that stays as it was written counts as 1.00x, whatever the clock says of it;
    what is counted as faster, or as ahead, is so by its interval."""
    known = [details[row["script"]] for row in rows if row["of_expert"] is not None]
    if not known:
        return []
    name = f"track of {len(known)} scripts"
    changed = [one for one in known if one["study"].get("levers")]
    told = {
        "hotlap over the baseline, an epoch, geometric mean": (_mean_gain(known, "steady"), "x"),
        "hotlap over the baseline, whole trainings by a stopwatch, geometric mean": (_mean_gain(known, "total"), "x"),
        "left unchanged": (len(known) - len(changed), ""),
        "faster, by the interval": (sum(_low(one["steady"]["hotlap"]) > 1 for one in changed), ""),
        "ahead of every recipe, by the intervals": (sum(map(_is_ahead, changed)), ""),
        "hotlap as part of the expert's speed, worst": (min(row["of_expert"] for row in rows if row["of_expert"]), ""),
        "longest study": (max(row["study_s"] for row in rows), " s"),
    }
    off = [off for one in changed if (off := _off_by(one)) is not None]
    if off:
        told["total that a study claims, off the stopwatch's by at most a factor of"] = max(off), "x"
    return [{"claim": f"{name}: {what}", "mid": value, "unit": unit} for what, (value, unit) in told.items()]


def _mean_gain(known: Sequence[Mapping[str, Any]], part: str) -> float:
    gains = [one[part]["hotlap"]["mid"] if one["study"].get("levers") else 1.0 for one in known]
    return math.exp(statistics.fmean(map(math.log, gains)))


def _low(speedup: Mapping[str, float | None]) -> float:
    return speedup["low"] or 0.0


def _is_ahead(one: Mapping[str, Any]) -> bool:
    recipes = [found for variant, found in one["steady"].items() if variant not in ("hotlap", "expert") and found]
    return all(_low(one["steady"]["hotlap"]) > (found["high"] or math.inf) for found in recipes)


def _off_by(one: Mapping[str, Any]) -> float | None:
    """The claim over the stopwatch's, or the other way round; None where nothing was claimed of whole trainings."""
    claimed = one["study"].get("claimed_total")
    return claimed and math.exp(abs(math.log(claimed["mid"] / one["total"]["hotlap"]["mid"])))


def _write(rows: Mapping[str, Mapping[str, Any]], details: Mapping[str, Mapping[str, Any]]) -> None:
    ordered = [rows[name] for name in RECIPES if name in rows]
    keys = list(dict.fromkeys(key for row in ordered for key in row))
    table = [{key: row.get(key, "") for key in keys} for row in ordered]
    results_file.write(
        "track",
        adds_to=results_file.path("track"),
        results=table,
        claims=claims(ordered, details),
        scripts=dict(details),
    )


def main() -> None:
    """All scripts that were named, one after the other; the result is written after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(RECIPES)} (default: all)")
    parser.add_argument("--data", type=Path, default=HERE.parents[2] / "shared" / "data", help="folder of the data")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each variant (default: 3)")
    parser.add_argument(
        "--alone", action="store_true", help="the baseline and the patched script only; prints, writes nothing"
    )
    parser.add_argument("--budget", help="of each study, as `hotlap tune` takes it (default: what that takes)")
    args = parser.parse_args()
    unknown = sorted(set(args.names) - set(RECIPES))
    if unknown:
        parser.error(f"there is no script {unknown[0]!r}; there are {', '.join(RECIPES)}")
    if not args.data.is_dir():
        print(f"{args.data} is missing: the scripts take data that come with Python or scikit-learn", file=sys.stderr)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    path = results_file.RESULTS / f"track-{results_file.device_name()}.json"
    old = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"results": [], "scripts": {}}
    rows, details = {row["script"]: row for row in old["results"]}, dict(old["scripts"])
    for name in args.names or RECIPES:
        with tempfile.TemporaryDirectory(prefix="track-") as folder:
            entry = Entry(name, Path(folder), args.data.resolve(), others=not args.alone)
            study = entry.tune(args.budget)
            print(name, {key: study.get(key) for key in ("levers", "claimed", "verdict", "why", "failed")}, flush=True)
            for k in range(args.rounds):
                entry.round(backwards=k % 2 == 1)
            row = entry.row(study)
            print(json.dumps(row), flush=True)
            if not args.alone:
                rows[name], details[name] = row, entry.details(study)
                _write(rows, details)


if __name__ == "__main__":
    main()

"""The demo: what `hotlap tune examples/digits.py` comes to, and whether the patched script keeps the promise.

One study with the default budget, then the script as written and as patched, run plainly to their end in turn, several
times. Writes `benchmarks/results/demo-<device>.json`, the terminal's text as `demo.json`, and the picture of the front
page.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import picture
import results_file
from hotlap.record import Study, decode

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "digits.py"
PAIRS = 3


def plain_run(script: Path) -> tuple[float, str]:
    """(Seconds of a whole run that finds nothing which another one kept, what it printed.)"""
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"HOTLAP_CACHE": cache}
        words, begun = [sys.executable, script.name], time.perf_counter()
        done = subprocess.run(words, cwd=script.parent, env=environment, capture_output=True, text=True, check=True)
        return time.perf_counter() - begun, done.stdout


def mean_step_s(run: dict[str, Any] | None) -> float | None:
    """Seconds of a step of it, as it was recorded."""
    return statistics.fmean(run["step_s"]) if run else None


def hotlap(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "hotlap", *words], cwd=cwd, capture_output=True, text=True, check=True)


def main() -> None:
    """The study, the pairs, the files."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "digits"
        folder.mkdir()
        shutil.copy(EXAMPLE, folder)
        done = hotlap("tune", "--json", "-", EXAMPLE.name, cwd=folder)
        study = json.loads(done.stdout)
        picture.draw(decode(done.stdout.encode(), Study))
        rows = []
        if study["patch"]:
            hotlap("apply", cwd=folder)
            written, patched = EXAMPLE, folder / EXAMPLE.name
            for k in range(PAIRS):
                order = ((written, "written"), (patched, "patched"))
                found = {kind: plain_run(path) for path, kind in (order if k % 2 == 0 else order[::-1])}
                rows.append(
                    {
                        "written_s": found["written"][0],
                        "patched_s": found["patched"][0],
                        "same_output": found["written"][1] == found["patched"][1],
                    }
                )
    speedup = study["result"]["speedup"]
    levers = ", ".join(lever["name"] for lever in study["result"]["levers"]) or "none"
    claims = [{"claim": f"demo, steps in fresh processes (levers: {levers})", **speedup, "unit": "x"}]
    if total := study["result"]["total_speedup"]:
        claims.append({"claim": "demo, whole training, as the study tells it", **total, "unit": "x"})
    if rows:
        ratios = [row["written_s"] / row["patched_s"] for row in rows]
        claims.append(
            {
                "claim": f"demo, whole runs of 5 epochs, all included (median, range of {PAIRS} pairs)",
                "mid": statistics.median(ratios),
                "low": min(ratios),
                "high": max(ratios),
                "unit": "x",
            }
        )
    trials = [
        {key: trial[key] for key in ("levers", "kind", "speedup", "verdict", "accepted", "why")}
        for trial in study["trials"]
    ]
    told = {key: study["result"][key] for key in ("whole_s", "one_time_s", "break_even_step")}
    step_s = {key: mean_step_s(study[key]) for key in ("beside", "after")} | {
        "baseline": mean_step_s(study["baseline"][0])
    }
    results_file.write(
        "demo", results=rows, claims=claims, trials=trials, told=told, step_s=step_s, elapsed_s=study["elapsed_s"]
    )
    output = done.stderr.split("Report: ")[0].rstrip().replace(f"{folder}/", "")
    text = json.dumps({"machine": results_file.device_name(), "output": output}, indent=2)
    (results_file.RESULTS / "demo.json").write_text(text + "\n")
    print(output, claims, rows, sep="\n")


if __name__ == "__main__":
    main()

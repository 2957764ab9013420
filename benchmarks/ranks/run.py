"""Is the planted cause of several processes said first? Small scripts with one fault each, and some without.

    python benchmarks/ranks/run.py [NAME ...] [--count N] [--steps N] [--out PATH]

A script's docstring begins with the code that must come first. The link is emulated
(hotlap.lab.scripts.emulated_link), so its truth is known; without a fault none of the
codes about several processes may come at all.
"""

import argparse
import ast
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from hotlap import machine, rules
from hotlap.launch import Launcher
from hotlap.record import Plan, Run
from hotlap.tune import WATCHES

SCRIPTS = Path(__file__).resolve().parent / "scripts"
CODES = {"communication-bound", "straggler", "unequal-work", "accumulation-syncs"}
LIMIT_S = 120.0


def measure(script: Path, *, count: int, steps: int) -> Run:
    """What `hotlap measure -- torchrun ...` would record of it."""
    launch = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(count))
    with (
        tempfile.TemporaryDirectory() as folder,
        Launcher(environment=lambda plan: {}, folders=(), timeout_s=60) as run,
    ):
        plan = Plan(
            command=(*launch, str(script)),
            cwd=folder,
            out="",
            steps=steps,
            warmup=5,
            watches=WATCHES,
            limit_s=LIMIT_S,
        )
        return run([plan], limit_s=LIMIT_S)[0]


def look(script: Path, *, count: int, steps: int) -> dict[str, Any]:
    """One row of the result."""
    expected = (ast.get_docstring(ast.parse(script.read_text())) or "").partition(":")[0]
    run = measure(script, count=count, steps=steps)
    found = rules.check(run, machine.look())
    codes = [finding.code for finding in found if not finding.advice]
    hit = codes[:1] == [expected] if expected in CODES else bool(codes) and CODES.isdisjoint(codes)
    print("ok  " if hit else "MISS", script.stem, codes, str(run.status), run.error or "", flush=True)
    for finding in found[:2]:
        print(f"       {finding.code} {finding.share:.0%}: {finding.evidence}", flush=True)
    return {
        "script": script.stem,
        "count": count,
        "expected": expected if expected in CODES else None,
        "found": codes,
        "shares": [round(finding.share, 3) for finding in found if not finding.advice],
        "hit": hit,
        "status": str(run.status),
    }


def main() -> None:
    """All scripts, or those named."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--count", type=int, default=2, help="processes")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--out", type=Path, help="file for the rows, as JSON")
    args = parser.parse_args()
    scripts = sorted(path for path in SCRIPTS.glob("*_*.py") if not args.names or path.stem in args.names)
    rows = [look(script, count=args.count, steps=args.steps) for script in scripts]
    for title, group in (
        ("faults said first", [row for row in rows if row["expected"]]),
        ("without a fault, and none said", [row for row in rows if not row["expected"]]),
    ):
        print(f"{title}: {sum(row['hit'] for row in group)} of {len(group)}")
    if args.out:
        args.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()

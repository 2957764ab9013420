"""Is the planted cause of several processes said first? Small scripts with one fault each, and some without.

    python benchmarks/ranks/run.py [NAME ...] [--count N] [--steps N]

A script's docstring begins with the code that must come first. The link is emulated
(scripts/emulated_link.py), so its truth is known; without a fault none of the
codes about several processes may come at all.
"""

import argparse
import ast
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import results_file  # noqa: E402 - it stands one folder above
from hotlap import machine, rules  # noqa: E402
from hotlap.launch import Launcher  # noqa: E402
from hotlap.record import Plan, Run  # noqa: E402
from hotlap.tune import PROFILERS  # noqa: E402

SCRIPTS = HERE / "scripts"
CODES = {"communication-bound", "straggler"}
LIMIT_S = 120.0


def measure(script: Path, *words: str, count: int, steps: int) -> Run:
    """What `hotlap measure -- torchrun ...` would record of it."""
    launch = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(count))
    with (
        tempfile.TemporaryDirectory() as folder,
        Launcher(environment=lambda plan: {}, folders=(), timeout_s=60) as run,
    ):
        plan = Plan(
            command=(*launch, str(script), *words),
            cwd=folder,
            out="",
            steps=steps,
            warmup=5,
            profilers=PROFILERS,
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
    args = parser.parse_args()
    scripts = sorted(path for path in SCRIPTS.glob("*_*.py") if not args.names or path.stem in args.names)
    rows = [look(script, count=args.count, steps=args.steps) for script in scripts]
    groups = {
        "planted causes that came first": [row for row in rows if row["expected"]],
        "healthy, without a false alarm": [row for row in rows if not row["expected"]],
    }
    claims = [
        {"claim": f"several processes, {text}", "mid": sum(row["hit"] for row in group), "unit": f" of {len(group)}"}
        for text, group in groups.items()
    ]
    print(claims)
    if not args.names:
        results_file.write("ranks", claims=claims, results=rows)


if __name__ == "__main__":
    main()

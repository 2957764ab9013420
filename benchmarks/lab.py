"""All founding experiments on this machine, one after the other; writes benchmarks/results/lab_NAME.json.

`python benchmarks/lab.py [--quick] [NAME ...]`. The checklist is asked about examples/digits.py.
"""

import json
import subprocess
import sys
from pathlib import Path

import origin
from hotlap.lab import EXPERIMENTS, file_of

ROOT = Path(__file__).resolve().parents[1]


def main() -> int:
    """Those that were named, or all; the exit code."""
    named = {word for word in sys.argv[1:] if word != "--quick"}
    quick = ["--quick"] if "--quick" in sys.argv[1:] else []
    failed = []
    for name in EXPERIMENTS:
        if named and name not in named:
            continue
        out = ROOT / "benchmarks" / "results" / f"lab_{name.replace('-', '_')}.json"
        script = ["examples/digits.py"] if "script" in file_of(name).TAKES else []
        command = [sys.executable, "-m", "hotlap", "lab", name, *quick, "--json", str(out), *script]
        if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
            failed.append(name)
            continue
        # The pages show the tables; a study with all its runs is some hundred kB.
        told = json.loads(out.read_text())
        kept = {key: value for key, value in told.items() if key != "study"} | origin.of(out.stem)
        out.write_text(json.dumps(kept, indent=1) + "\n")
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

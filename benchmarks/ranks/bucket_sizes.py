"""Is the bucket size that `hotlap tune` takes as fast as the best one? On emulated links, against all sizes in turns.

    python benchmarks/ranks/bucket_sizes.py [--budget TIME] [--jobs N]

The oracle is a job that holds a model for each size that the lever may choose, and one for torch's own; their blocks of
steps take turns. What `tune` takes is compared with the best of them job by job, by the median block.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import results_file  # noqa: E402 - it stands one folder above
from hotlap.experiment import statistics  # noqa: E402
from hotlap.levers.data_parallel import BucketSize  # noqa: E402
from hotlap.record import Study, load  # noqa: E402

SCRIPTS = HERE / "scripts"
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")
# (link, layers of 0.56 MB, batch): with more than 25 MB there is one size more than torch's own that holds all.
CASES = (("1-gbit", 16, 64), ("10-gbit", 48, 32), ("latency", 48, 32))
ROUNDS = 8
OWN = 0
"""Torch's own size."""
CLAIM = "step with the bucket size that tune takes, over that with the best"


def main() -> None:
    """All cases."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--budget", default="5m", help="of each study")
    parser.add_argument("--jobs", type=int, default=3, help="jobs of the oracle: the unit of its interval")
    args = parser.parse_args()
    rows = []
    for link, layers, batch in CASES:
        study = tune((link, str(layers), str(batch)), budget=args.budget)
        sizes = candidates(study)
        jobs = [times((link, str(layers), str(batch)), sizes) for _ in range(args.jobs)]
        rows.append({"link": link, "layers": layers, "batch": batch, **compared(study, sizes, jobs)})
        print(rows[-1], flush=True)
        claims = [{"claim": f"{CLAIM}, {row['link']}", **row["slower"]} for row in rows]
        results_file.write("bucket_sizes", claims=claims, results=rows)


def tune(words: tuple[str, ...], *, budget: str) -> Study:
    """The study of the lever alone."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "study.json"
        command = (sys.executable, "-m", "hotlap", "tune", "--quiet", "--levers", BucketSize.name, "--budget", budget)
        subprocess.run(
            [*command, "--json", str(out), "--", *TORCHRUN, str(SCRIPTS / "training.py"), *words],
            cwd=folder,
            check=True,
            stdout=sys.stderr,
        )
        return load(out, Study)


def candidates(study: Study) -> list[int]:
    """All sizes that are tried for this script, in MB, behind torch's own."""
    assert study.machine is not None
    return [OWN, *(one.megabytes for one in BucketSize.candidates(study.baseline[0], study.machine))]


def times(words: tuple[str, ...], sizes: list[int]) -> dict[int, float]:
    """Size -> median seconds of a step in one job."""
    command = (*TORCHRUN, str(SCRIPTS / "sizes.py"), *words, str(ROUNDS), *map(str, sizes))
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    told: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
    return {int(size): median(found) for size, found in told.items()}


def compared(study: Study, sizes: list[int], jobs: list[dict[int, float]]) -> dict[str, Any]:
    """What was taken, what would have been best, and by which factor that one is faster."""
    assert study.result is not None
    taken = next((int(one["megabytes"]) for one in study.result.levers), OWN)
    step_s = {size: math.exp(sum(math.log(job[size]) for job in jobs) / len(jobs)) for size in sizes}
    best = min(step_s, key=lambda size: step_s[size])
    slower = statistics.interval([math.log(job[taken] / job[best]) for job in jobs])
    return {
        "taken_mb": taken or None,
        "best_mb": best or None,
        "slower": {"mid": step_s[taken] / step_s[best], "unit": "x"}
        | ({"low": slower.low, "high": slower.high} if slower is not None else {}),
        "step_s": {str(size or "torch's own"): seconds for size, seconds in step_s.items()},
        "jobs": len(jobs),
        "why": study.result.why,
    }


if __name__ == "__main__":
    main()

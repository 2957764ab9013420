"""How the totals of a step spread over its operators -> standard output: the constants at the end of workload.py.

Operators on less than a kilobyte (counters, scalars) are left out of the last figure. For workloads that
were saved with `hotlap predict --save-workload` or `hotlap.predict.workload.save`.
"""

import sys
from math import log
from pathlib import Path
from statistics import mean, median, pstdev

from hotlap.predict import workload


def main(paths: list[str]) -> None:
    rows = []
    for path in paths:
        work = workload.load(Path(path))
        matrix = [one for one in work.operators if one.kind.on_matrix_units and one.flop > 0]
        others = [one for one in work.operators if not one.kind.on_matrix_units and one.moved_bytes > 1024]
        rows.append(
            (
                sum(one.count for one in matrix) / work.num_kernels,
                sum(one.moved_bytes * one.count for one in matrix) / work.memory_bytes,
                pstdev([log(one.flop) for one in matrix for _ in range(round(one.count))]),
                pstdev([log(one.moved_bytes) for one in others for _ in range(round(one.count))]),
            )
        )
    names = ("count share", "bytes share", "sigma of operations", "sigma of other bytes")
    for name, values in zip(names, zip(*rows, strict=True), strict=True):
        print(f"{name}: median {median(values):.2f}, mean {mean(values):.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])

"""What does `hotlap machine` show here, how long does it take, and how far do its figures differ from run to run?"""

import json
import subprocess
import sys
import time
from collections import defaultdict
from statistics import median

import results_file
from hotlap.record import Checkup, Unit, decode
from hotlap.report import machine, terminal

RUNS = 3


def measured(*, quick: bool) -> tuple[Checkup, float]:
    """One checkup, and the seconds from the start of the command to its end."""
    begun = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "hotlap", "machine", "--json", "-", *(["--quick"] if quick else [])],
        capture_output=True,
        check=True,
    )
    return decode(done.stdout, Checkup), time.perf_counter() - begun


def results(found: list[tuple[str, Checkup]]) -> list[dict[str, object]]:
    """For each figure: the median over runs, and the largest over the smallest."""
    values: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for pace, checkup in found:
        for figure in checkup.figures:
            threads = "" if figure.threads is None else str(figure.threads)
            unit = "us" if figure.unit is Unit.SECOND else f"G{figure.unit.value}"
            value = figure.value.mid * (1e6 if figure.unit is Unit.SECOND else 1e-9)
            values[figure.device, figure.name, figure.variant, threads, unit, pace].append(value)
    rows: list[dict[str, object]] = []
    for (device, name, variant, threads, unit, pace), several in values.items():
        row = {"device": device, "figure": name, "variant": variant, "threads": threads, "unit": unit, "pace": pace}
        rows.append({**row, "median": median(several), "largest_over_smallest": max(several) / min(several)})
    return rows


def main() -> None:
    found: list[tuple[str, Checkup]] = []
    took: dict[str, list[float]] = defaultdict(list)
    for _ in range(RUNS):
        for pace in ("thorough", "quick"):
            checkup, seconds = measured(quick=pace == "quick")
            found.append((pace, checkup))
            took[pace].append(seconds)
    duration = [{"pace": pace, "median_s": median(times), "longest_s": max(times)} for pace, times in took.items()]
    shown = next(checkup for pace, checkup in reversed(found) if pace == "thorough")
    output = terminal.plain(machine.sections(shown))
    path = results_file.write("machine", results=results(found), took=duration, output=output)
    print(json.dumps(duration, indent=1), path.name)


if __name__ == "__main__":
    main()

"""Several ways to do the same work, timed in turn within each round, so that a busy moment hits all of them."""

import datetime
import json
import os
import platform
import statistics
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import origin

RESULTS = Path(__file__).parents[1] / "results"
PACKAGES = ("torch", "numpy", "scipy", "torchdiffeq", "jax", "jaxlib", "diffrax", "scikit-learn")

Contender = Callable[[int], object]
"""Does the work so many times; of one that can only do many at once, an attribute `least` says how many."""


def contest(makers: dict[str, Callable[[], Contender]], *, rounds: int, seconds: float) -> dict[str, Any]:
    """Time each contender for about `seconds` in each of `rounds`; a maker that fails is written down as it failed.

    Contenders whose name has a word of the command line in it are left out, and written down as that.
    """
    ready: dict[str, Contender] = {}
    found: dict[str, dict[str, Any]] = {}
    counts: dict[str, int] = {}
    for name, make in makers.items():
        if any(word in name for word in sys.argv[1:]):
            found[name] = {"failed": "left out of this run"}
            continue
        run, count, found[name] = _get_ready(make, seconds)
        if run is not None:
            ready[name], counts[name] = run, count
        print(name, found[name].get("failed", ""), flush=True)
    for _ in range(rounds):
        for name, run in ready.items():
            n = counts[name]
            wall, cpu = perf_counter(), process_time()
            run(n)
            found[name]["wall_us"].append((perf_counter() - wall) / n * 1e6)
            found[name]["cpu_us"].append((process_time() - cpu) / n * 1e6)
    for name in ready:
        for clock in ("wall", "cpu"):
            times = found[name].pop(f"{clock}_us")
            found[name][f"{clock}_us"] = {"median": statistics.median(times), "least": min(times), "most": max(times)}
    return found


def _get_ready(make: Callable[[], Contender], seconds: float) -> tuple[Contender | None, int, dict[str, Any]]:
    """(what to run, how many times in `seconds`, its record with the time of the first call)."""
    start = perf_counter()
    try:
        run = make()
        run(1)
    except Exception as error:
        return None, 0, {"failed": f"{type(error).__name__}: {error}"[:300]}
    record = {"first_call_s": perf_counter() - start, "wall_us": [], "cpu_us": []}
    least = getattr(run, "least", 1)
    start, n = perf_counter(), least
    while perf_counter() - start < seconds / 4:
        run(n)
        n *= 2
    return run, max(1, int(n / least * seconds / max(perf_counter() - start, 1e-9))) * least, record


def about() -> dict[str, Any]:
    """Where, when and with what the numbers were made, as docs/benchmarks.md has it."""
    model = platform.processor()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "absent"
    from hotlap.native import core

    return {
        "machine": {
            "processor": model,
            "cores": os.cpu_count(),
            "load": round(os.getloadavg()[0], 1),
            "native": core().variant or core().why_not,
        },
        "versions": versions,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def save(name: str, results: dict[str, Any], note: str) -> None:
    """Write benchmarks/results/<name>.json, a row for each job and contender, and show it."""
    rows = []
    for job, contenders in results.items():
        for contender, times in contenders.items():
            row: dict[str, Any] = {"job": job, "contender": contender}
            if "failed" in times:
                row |= {
                    "median_s": None,
                    "least_s": None,
                    "most_s": None,
                    "first_call_s": None,
                    "failed": times["failed"],
                }
            else:
                row |= {f"{key}_s": times["wall_us"][key] / 1e6 for key in ("median", "least", "most")}
                row |= {"first_call_s": times["first_call_s"], "failed": None}
            rows.append(row)
        show(job, contenders)
    write(name, rows, note)


def show(job: str, contenders: dict[str, Any]) -> None:
    """One job's times on the terminal."""
    for contender, times in contenders.items():
        wall = times.get("wall_us")
        print(job, contender, times.get("failed") or f"{wall['median']:.1f} us (least {wall['least']:.1f})", flush=True)


def write(name: str, rows: list[dict[str, Any]], note: str) -> None:
    """benchmarks/results/<name>.json."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(
        json.dumps({**about(), **origin.of(name), "note": note, "results": rows}, indent=2) + "\n"
    )

"""What `hotlap read` says of recorded GPU traces, beside tables of another tool; how fast it reads, in how much memory.

The traces lie in ../shared/data/traces (their README names sources and licences); TRACES names another folder. Writes
results/traces-<device>.json. Each trace is read by a process of its own.
"""

import csv
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import large_trace
import results_file
from hotlap.trace import files, spans, study, table
from hotlap.trace.reading import Reading, reading
from hotlap.trace.recomputed import launched_again
from hotlap.trace.table import Kind, Mask, Trace
from hotlap.trace.timeline import timeline

FOLDER = Path(os.environ.get("TRACES", Path(__file__).resolve().parents[2] / "shared" / "data" / "traces"))
MEGABYTES = 1000
# What the sources say of traces beside which no table stands.
KNOWN = {
    "2080ti-resnet": "its source: loading about twice the kernels, pageable copies",
    "a100-ddp-rank3": "its source: nearly always computing",
    "v100-dlrm-8ranks": "its source: steps of 12 to 20 ms, about 1 ms of computing",
    "v100-ns-resolution": "its format: times in nanoseconds",
    "v100-resnet50-workers0-a": "its source: a loader without workers",
    "v100-resnet50-workers0-b": "the same training recorded again: the same bound",
}


def main() -> None:
    found = [in_process(path, "told") for path in sorted(FOLDER.glob("*.gz"))]
    large = speed(FOLDER / "v100-ns-resolution.json.gz")
    print(results_file.write("traces", results=found, speed=large))


def told(path: Path) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        if ".tar" in path.suffixes:  # of the ranks of one job
            shutil.unpack_archive(path, folder, filter="data")
        names = [folder if ".tar" in path.suffixes else str(path)]
        with files.found(names) as paths:
            readings = study.ranked([reading(table.read(one)) for one in paths])
    found = study.made(names, readings)
    (run,) = found.baseline
    shown = next(one for one in readings if one.run.rank == run.rank)
    ours = times_ms(shown.trace, shown.rows)
    total = ours["total_time"]
    return {
        "trace": path.name.partition(".")[0],
        "device": run.device,
        "steps": len(run.step_s),
        "median step": f"{1e3 * run.median_step_s():.1f} ms",
        "busy": f"{ours['busy_time'] / total:.0%}",
        "exposed communication": f"{ours['exposed_comm_time'] / total:.0%}",
        "findings": ", ".join(f"{one.code} {one.share:.0%}" for one in found.findings) or "none",
        "ceiling": next((f"{one.name} {one.speedup.mid:.2f}x" for one in found.ceilings), "none"),
        "checked against": beside(path, gpu_timeline(shown)) or KNOWN.get(path.name.partition(".")[0], "nothing"),
    }


def times_ms(trace: Trace, rows: Mask) -> dict[str, float]:
    """Name -> milliseconds of these events as TraceLens has them (AMD-AGI/TraceLens, `gpu_timeline`)."""
    found = timeline(trace, rows)
    busy_s, total_s = spans.length(found.busy), float(trace.end[rows].max() - trace.start[rows].min())
    seconds = {
        "computation_time": spans.length(found.computing),
        "exposed_comm_time": spans.length(found.exposed_communication),
        "exposed_memcpy_time": spans.length(found.exposed_copies),
        "busy_time": busy_s,
        "idle_time": total_s - busy_s,
        "total_time": total_s,
        "total_comm_time": spans.length(found.communication),
        "total_memcpy_time": spans.length(found.copies),
    }
    return {name: 1e3 * one for name, one in seconds.items()}


def gpu_timeline(one: Reading) -> dict[tuple[str, str], float]:
    """(name, whether it is recomputed) -> milliseconds. Where something is recomputed both kinds stand apart, as that
    tool has them; memory that is set is left out there, as it does."""
    again = launched_again(one) & one.rows
    if not again.any():
        return {(name, ""): ms for name, ms in times_ms(one.trace, one.rows).items()}
    counted = one.rows & ~one.trace.which(Kind.MEMSET)
    parts = (("False", counted & ~again), ("True", counted & again))
    return {(name, flag): ms for flag, rows in parts for name, ms in times_ms(one.trace, rows).items()}


def table_of(path: Path) -> dict[tuple[str, str], float]:
    """The same of a table that TraceLens wrote."""
    rows = csv.DictReader(path.read_text().splitlines())
    return {(row["type"], row.get("is_recompute") or ""): float(row["time ms"]) for row in rows}


def beside(path: Path, ours: dict[tuple[str, str], float]) -> str:
    """The largest difference of any time from the table that stands beside the trace; empty without one."""
    theirs = path.with_name(f"{path.name.partition('.')[0]}.gpu_timeline.csv")
    if not theirs.exists():
        return ""
    apart = [(ours[key], ms) for key, ms in table_of(theirs).items()]
    largest = max(abs(a - b) / b for a, b in apart if b > 0)
    return f"TraceLens: all its times, within {largest:.0e} of each"


def speed(path: Path) -> dict[str, Any]:
    """Of a file of a gigabyte that holds this trace many times over, one after the other in time."""
    with tempfile.TemporaryDirectory() as folder:
        large = Path(folder) / "large.json"
        # In a process of its own: what starts a process passes its peak of memory on.
        subprocess.run([sys.executable, large_trace.__file__, str(path), str(large), str(MEGABYTES)], check=True)
        size = large.stat().st_size
        begun = time.perf_counter()
        found = in_process(large, "peak")
        seconds = time.perf_counter() - begun
    per_s = size / 1e6 / found["processor seconds"]
    return {"MB": round(size / 1e6), "seconds": round(seconds, 1), "MB a processor second": round(per_s), **found}


def in_process(path: Path, what: str) -> dict[str, Any]:
    """In a process of its own, for its memory."""
    command = [sys.executable, __file__, str(path), what]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        answer = told(Path(sys.argv[1]))
        if sys.argv[2] == "peak":
            used = resource.getrusage(resource.RUSAGE_SELF)
            processor_s = used.ru_utime + used.ru_stime
            answer = {"processor seconds": round(processor_s, 1), "peak MB": round(used.ru_maxrss / 1024)}
        print(json.dumps(answer))
    else:
        main()

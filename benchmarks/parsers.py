"""Which JSON parser reads a trace fastest, in how much memory: orjson, ijson, msgspec, pyarrow, hotlap's own pieces.

All have one task: the number of kernels and their time. The file is v100-ns-resolution from ../shared/data/traces
(TRACES names another folder), repeated to 200 MB; pyarrow reads lines only, so its events are cut into lines
beforehand, for free. Each parser has a process of its own; the better of two runs. Needs `pip install orjson ijson
pyarrow`. Writes results/parsers-<device>.json.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import large_trace
import results_file

FOLDER = Path(os.environ.get("TRACES", Path(__file__).resolve().parents[2] / "shared" / "data" / "traces"))
SIZE = 200_000_000
RUNS = 2
Found = tuple[int, float]


def stdlib(path: Path) -> Found:
    return _kernels(json.loads(path.read_bytes())["traceEvents"])


def with_orjson(path: Path) -> Found:
    orjson = import_module("orjson")
    return _kernels(orjson.loads(path.read_bytes())["traceEvents"])


def with_ijson(path: Path) -> Found:
    ijson = import_module("ijson")
    with path.open("rb") as stream:
        return _kernels(ijson.items(stream, "traceEvents.item", use_float=True))


def with_msgspec(path: Path) -> Found:
    import msgspec

    return _kernels(msgspec.json.decode(path.read_bytes())["traceEvents"])


def with_pyarrow(path: Path) -> Found:
    pa, compute, lines = (import_module(name) for name in ("pyarrow", "pyarrow.compute", "pyarrow.json"))
    fields = [(name, pa.string()) for name in ("ph", "cat", "name")] + [("dur", pa.float64())]
    options = lines.ParseOptions(explicit_schema=pa.schema(fields), unexpected_field_behavior="ignore")
    events = lines.read_json(path.with_suffix(".lines"), parse_options=options)
    kernels = events.filter(compute.equal(events["cat"], "kernel"))
    return len(kernels), float(compute.sum(kernels["dur"]).as_py())


def hotlap(path: Path) -> Found:
    """Typed structures by msgspec, of pieces of 4 MB."""
    from hotlap.trace import files, parse

    count, total = 0, 0.0
    for some in parse.events(files.pieces(path), path.name, {}):
        lengths = [one.dur for one in some if one.cat == "kernel" and isinstance(one.dur, int | float)]
        count, total = count + len(lengths), total + sum(lengths)
    return count, total


def whole(path: Path) -> Found:
    """All of `hotlap read` up to the table: pieces, columns, order, launches."""
    from hotlap.trace import table
    from hotlap.trace.table import Kind

    trace = table.read(path)
    kernels = trace.which(Kind.KERNEL, Kind.COMMUNICATION)
    return int(kernels.sum()), 1e6 * float((trace.end - trace.start)[kernels].sum())


def _kernels(events: Iterable[Mapping[str, Any]]) -> Found:
    lengths = [float(one["dur"]) for one in events if one.get("cat") == "kernel"]
    return len(lengths), sum(lengths)


PARSERS = {
    "json": stdlib,
    "orjson": with_orjson,
    "ijson": with_ijson,
    "msgspec": with_msgspec,
    "pyarrow": with_pyarrow,
    "hotlap, events": hotlap,
    "hotlap, table": whole,
}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.json"
        # In a process of its own: what starts a process passes its peak of memory on.
        subprocess.run([sys.executable, __file__, "write", str(path)], check=True)
        megabytes = path.stat().st_size / 1e6
        rows = [_best(name, path, megabytes) for name in PARSERS]
    print(results_file.write("parsers", MB=round(megabytes), results=rows))


def write(path: Path) -> None:
    """The file, and its events in lines beside it."""
    large_trace.write(FOLDER / "v100-ns-resolution.json.gz", path, SIZE)
    with path.with_suffix(".lines").open("w") as out:
        out.writelines(json.dumps(one) + "\n" for one in json.loads(path.read_bytes())["traceEvents"])


def _best(name: str, path: Path, megabytes: float) -> dict[str, Any]:
    command = [sys.executable, __file__, name, str(path)]
    runs = [json.loads(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(RUNS)]
    best = min(runs, key=lambda run: float(run["processor s"]))
    return {"parser": name, "MB/s": round(megabytes / best["processor s"]), **best}


def measured(name: str, path: Path) -> dict[str, Any]:
    """In this process."""
    begun = time.process_time()
    count, total_us = PARSERS[name](path)
    processor_s = time.process_time() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"processor s": round(processor_s, 2), "peak MB": round(peak), "kernels": count, "ms": round(total_us / 1e3)}


if __name__ == "__main__":
    if sys.argv[1:2] == ["write"]:
        write(Path(sys.argv[2]))
    elif len(sys.argv) > 1:
        print(json.dumps(measured(sys.argv[1], Path(sys.argv[2]))))
    else:
        main()

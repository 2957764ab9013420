"""Study -> where and with what it was made, as rows of two texts."""

from collections.abc import Iterator

from hotlap.record import Machine, Run, Study
from hotlap.report.outcome import is_tuned
from hotlap.report.story import UNKNOWN, script, timed
from hotlap.units import duration, size


def rows(study: Study) -> tuple[tuple[str, str], ...]:
    """Name and value; what is not known says so."""
    run = timed(study)
    if run is not None and run.from_trace:
        return tuple(_trace(study, run))
    return (*_study(study), *(_run(run) if run else ()), *(_machine(study.machine) if study.machine else ()))


def _trace(study: Study, run: Run) -> Iterator[tuple[str, str]]:
    """A recorded trace tells little of where it was made."""
    yield "Trace", script(study)
    yield "Read", study.created or UNKNOWN
    yield "hotlap", study.hotlap or UNKNOWN
    yield "Device", run.device
    if run.world_size > 1:
        yield "Processes", str(run.world_size)


def _study(study: Study) -> Iterator[tuple[str, str]]:
    yield "Command", script(study)
    yield "Folder", study.cwd or UNKNOWN
    yield "Started", study.created or UNKNOWN
    budget = f" of {duration(study.budget_s)}" if is_tuned(study) else ""
    yield "Took", f"{duration(study.elapsed_s)}{budget}"
    yield "hotlap", study.hotlap or UNKNOWN


def _run(run: Run) -> Iterator[tuple[str, str]]:
    for name, version in run.versions.items():
        if name != "hotlap":
            yield {"python": "Python", "torch": "PyTorch"}.get(name, name), version
    yield "Device", run.device
    yield "Threads", UNKNOWN if run.num_threads is None else str(run.num_threads)
    yield "Peak memory", UNKNOWN if run.rss_peak_bytes is None else size(run.rss_peak_bytes)
    if run.device_peak_bytes is not None:
        yield "Peak device memory", size(run.device_peak_bytes)
    yield "Cost of measuring", UNKNOWN if run.probe_s is None else f"{duration(run.probe_s)} a step"


def _machine(machine: Machine) -> Iterator[tuple[str, str]]:
    yield "System", f"{machine.system}, {machine.libc}"
    yield "Processor", machine.processor or UNKNOWN
    yield "Cores", f"{machine.usable_cores:g} usable of {machine.num_cores}"
    yield "Memory", f"{size(machine.available_bytes)} free of {size(machine.memory_bytes)}"
    yield "GPUs", ", ".join(machine.gpus) or "none"

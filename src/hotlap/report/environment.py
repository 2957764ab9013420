"""Study -> where and with what it was made, as rows of two texts."""

from collections.abc import Mapping

from hotlap.record import Machine, Run, Study
from hotlap.report.outcome import is_tuned
from hotlap.report.story import script, timed
from hotlap.units import duration, size


def rows(study: Study) -> tuple[tuple[str, str], ...]:
    """Name and value; what is not known is left out."""
    run, machine = timed(study), study.machine
    budget = f" of {duration(study.budget_s)}" if is_tuned(study) else ""
    found = {
        "Command": script(study),
        "Folder": study.cwd,
        "Started": study.created,
        "Took": f"{duration(study.elapsed_s)}{budget}",
        "hotlap": study.hotlap,
        **(_of_run(run) if run else {}),
        **(_of_machine(machine) if machine else {}),
    }
    return tuple((name, value) for name, value in found.items() if value)


def _of_run(run: Run) -> Mapping[str, str]:
    names = {"python": "Python", "torch": "PyTorch"}
    return {
        **{names.get(name, name): version for name, version in run.versions.items()},
        "Device": run.device,
        "Threads": str(run.num_threads or ""),
        "Processes": str(run.world_size) if run.world_size > 1 else "",
        "Peak memory": size(run.rss_peak_bytes) if run.rss_peak_bytes else "",
        "Peak device memory": size(run.device_peak_bytes) if run.device_peak_bytes else "",
        "Cost of measuring": "" if run.probe_s is None else f"{duration(run.probe_s)} a step",
    }


def _of_machine(machine: Machine) -> Mapping[str, str]:
    return {
        "System": f"{machine.system}, {machine.libc}",
        "Processor": machine.processor,
        "Cores": f"{machine.usable_cores:g} usable of {machine.num_cores}",
        "Memory": f"{size(machine.available_bytes)} free of {size(machine.memory_bytes)}",
        "GPUs": ", ".join(machine.gpus) or "none",
    }

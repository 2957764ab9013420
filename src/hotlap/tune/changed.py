"""A study, and the present -> what is not as it was studied, so that its levers may not hold any more."""

import hashlib
import importlib.metadata
import platform
import shlex
from collections.abc import Iterator
from pathlib import Path

import hotlap
from hotlap.record import Machine, Study
from hotlap.units import size

# Of a machine's memory; what the system keeps for itself varies by less from one boot to the next.
_MEMORY_SHARE = 0.1


def changed(study: Study, *, command: tuple[str, ...], machine: Machine, title: str) -> tuple[str, ...]:
    """Each difference as a clause: "net.py changed", "torch was 2.12.0 and is 2.13.0"."""
    return (
        *_arguments(study, command),
        *_sources(study, title),
        *_versions(study, command),
        *(_machine(study.machine, machine) if study.machine is not None else ()),
    )


def _arguments(study: Study, command: tuple[str, ...]) -> Iterator[str]:
    if study.command != command:
        yield f"it was studied as `{shlex.join(study.command)}`"


def _sources(study: Study, title: str) -> Iterator[str]:
    """Of all files that the script had loaded."""
    after = {change.path: change.after_sha256 for change in study.changes}
    for name, sha256 in study.baseline[0].sources.items() if study.baseline else ():
        path = Path(name)
        if not path.is_file():
            yield f"{path.name} is gone"
            continue
        now = hashlib.sha256(path.read_bytes()).hexdigest()
        if now == after.get(name):
            yield f"the study's patch is applied to {path.name}, so {title} needs no `hotlap run`"
        elif now != sha256:
            yield f"{path.name} changed"


def _versions(study: Study, command: tuple[str, ...]) -> Iterator[str]:
    if study.hotlap and study.hotlap != hotlap.__version__:
        yield f"hotlap was {study.hotlap} and is {hotlap.__version__}"
    if command[:1] == ("--",) or not study.baseline:
        return  # which Python that ends in is not known before it runs
    here = {"python": platform.python_version(), "torch": importlib.metadata.version("torch")}
    for name, now in here.items():
        before = study.baseline[0].versions.get(name)
        # "2.13.0+cpu" says which build it is, and not every package does.
        if before is not None and not _same_version(before, now):
            yield f"{name} was {before} and is {now}"


def _same_version(one: str, other: str) -> bool:
    (one, _, build), (other, _, other_build) = one.partition("+"), other.partition("+")
    return one == other and (build == other_build or not (build and other_build))


def _machine(before: Machine, now: Machine) -> Iterator[str]:
    for what, one, other in (
        ("the system", before.system, now.system),
        ("the processor", before.processor, now.processor),
        ("the number of usable cores", f"{before.usable_cores:g}", f"{now.usable_cores:g}"),
        ("the C library", before.libc, now.libc),
        ("transparent huge pages", before.huge_pages, now.huge_pages),
        ("the GPU", ", ".join(before.gpus) or "none", ", ".join(now.gpus) or "none"),
    ):
        if one != other:
            yield f"{what} was {one} and is {other}"
    if abs(now.memory_bytes - before.memory_bytes) > _MEMORY_SHARE * before.memory_bytes:
        yield f"memory was {size(before.memory_bytes)} and is {size(now.memory_bytes)}"

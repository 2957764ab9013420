"""Facts + figures (measured in a child, or kept from the last time) -> a Checkup."""

import hashlib
import platform
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from statistics import median

import hotlap
from hotlap.errors import RecordError
from hotlap.folders import cache_folder
from hotlap.machine import in_child
from hotlap.machine.checks import complaints
from hotlap.machine.facts import Facts, gather
from hotlap.record import Checkup, Measured, load, save
from hotlap.units import percent

_PACKAGES = ("torch", "numpy")


def checkup(
    *, fresh: bool = False, quick: bool = False, folder: Path | None = None, doing: Callable[[str], None] = print
) -> Checkup:
    """What this machine can do, and what is wrong with it.

    Arguments:
        fresh: measure, whatever the cache holds.
        quick: shorter and fewer repeats will do; figures of a thorough measurement are still preferred.
        folder: where figures are kept (default: the user's cache folder).
        doing: told what is being done when it takes time.

    Raises:
        in_child.CannotMeasure: torch cannot be imported, or measuring did not end.
    """
    facts = gather()
    key = key_of(facts)
    path = (folder or cache_folder()) / f"machine-{key}.json"
    found = None if fresh else _kept(path, key=key, quick=quick)
    if found is None:
        doing("measuring the machine")
        begun, created = time.monotonic(), datetime.now(UTC)
        measured = in_child.measured("hotlap.machine.measure", Measured, *(["quick"] if quick else []))
        found = Checkup(
            machine=facts.machine,
            cores=facts.cores,
            created=created.isoformat(timespec="seconds"),
            key=key,
            hotlap=hotlap.__version__,
            versions=_versions(),
            torch=measured.torch,
            figures=measured.figures,
            quick=quick,
            elapsed_s=time.monotonic() - begun,
            notes=(*measured.failures, *_noise(measured)),
        )
        with suppress(OSError):  # a home that cannot be written to costs the time of measuring again, no more
            path.parent.mkdir(parents=True, exist_ok=True)
            save(found, path)
    known = replace(facts, torch=found.torch, figures=found.figures)
    return replace(found, machine=facts.machine, cores=facts.cores, complaints=complaints(known))


def key_of(facts: Facts) -> str:
    """Digest of all that figures depend on: hardware as far as this process may use it, versions, variables."""
    driver = facts.driver
    parts = [
        facts.machine.processor,
        *map(str, (facts.cores, facts.machine.memory_bytes, facts.machine.huge_pages, facts.clocks)),
        *(f"{gpu.name} {gpu.uuid} {gpu.power_limit_w}" for gpu in (driver.gpus if driver else ())),
        driver.version if driver else "",
        platform.release(),
        *(f"{name}={value}" for name, value in sorted(facts.environment.items())),
        *(f"{name} {version}" for name, version in _versions().items()),
    ]
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=12).hexdigest()


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "hotlap": hotlap.__version__}
    for name in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def _kept(path: Path, *, key: str, quick: bool) -> Checkup | None:
    try:
        found = load(path, Checkup)
    except RecordError:
        return None
    return found if found.key == key and (quick or not found.quick) else None


def _noise(found: Measured) -> tuple[str, ...]:
    """One sentence about how far the figures can be trusted."""
    if not found.figures:
        return ()
    typical = median(figure.spread for figure in found.figures)
    return (f"Repeats of a figure lie {percent(typical)} apart (half of the middle half, median of all figures).",)

"""Two studies -> how their steps differ, and what would make that comparison mean nothing."""

import math
from collections.abc import Callable, Iterator
from pathlib import PurePath
from statistics import mean, median

from hotlap.errors import UserError
from hotlap.experiment import batches
from hotlap.experiment.statistics import LEAST_SD
from hotlap.record import Change, Comparison, Interval, OperatorWindow, PartChange, Phase, PhaseChange, Run, Study


def differences(base: Study, other: Study) -> tuple[str, ...]:
    """What differs besides the code and makes step times incomparable, each as "device: cpu and NVIDIA H200"."""
    found = ((name, look(base), look(other)) for name, look in _MUST_AGREE)
    return tuple(f"{name}: {one} and {two}" for name, one, two in found if None not in (one, two) and one != two)


def contrast(base: Study, other: Study, *, names: tuple[str, str], limit: float | None) -> Comparison:
    """Compare the baselines.

    Raises:
        UserError: one of the studies has too few steps.
    """
    one, two = (_level(study, name) for study, name in zip((base, other), names, strict=True))
    between = _between(base, other)
    ratio = batches.ratio(one, two, between=between) if one is not None and two is not None else None
    return Comparison(
        base=names[0],
        other=names[1],
        base_step_s=mean(base.baseline[0].step_s) if one is None else one.mean_s,
        other_step_s=mean(other.baseline[0].step_s) if two is None else two.mean_s,
        ratio=ratio,
        between_runs=math.sqrt(between[0]) if between is not None else None,
        change=Change.UNDECIDED if ratio is None else _change(ratio, limit),
        limit=limit,
        phases=tuple(_phases(base.baseline[0], other.baseline[0])),
        parts=_parts(base.baseline[0], other.baseline[0]),
        differences=differences(base, other),
    )


def _parts(base: Run, other: Run) -> tuple[PartChange, ...]:
    """Kernels by what they compute, and why the device idled."""
    if base.operators is None or other.operators is None:
        return ()
    one, two = _device_s(base.operators), _device_s(other.operators)
    names = sorted(one.keys() | two.keys(), key=lambda name: -abs(two.get(name, 0.0) - one.get(name, 0.0)))
    return tuple(PartChange(name=name, base_s=one.get(name, 0.0), other_s=two.get(name, 0.0)) for name in names)


def _device_s(seen: OperatorWindow) -> dict[str, float]:
    idle = {f"idle, for {why}": seconds for why, seconds in seen.idle_s.items()}
    return {one.name: one.device_s for one in seen.work} | idle


def _change(ratio: Interval, limit: float | None) -> Change:
    line = 1 + (limit or 0.0)
    if ratio.low > line:
        return Change.SLOWER
    return Change.WITHIN if ratio.high <= line else Change.UNDECIDED


def _level(study: Study, name: str) -> batches.Level | None:
    """None for a recorded trace of very few steps: what changed on the device says something all the same."""
    found = batches.level(study.baseline[0].step_s) if study.baseline else None
    if found is None and not (study.baseline and study.baseline[0].from_trace):
        raise UserError(f"{name} holds too few steps to compare. Measure more of them.")
    return found


def _between(base: Study, other: Study) -> tuple[float, int] | None:
    """Variance of the log-ratio of one run and the next, as both studies saw it, and its degrees of freedom."""
    again = (noise for study in (base, other) for noise in study.noise if noise.scope == "again")
    ratios = [ratio for noise in again for ratio in noise.log_ratios]
    if not ratios:
        return None
    variance = math.fsum(ratio * ratio for ratio in ratios) / len(ratios)
    return max(LEAST_SD**2, variance), len(ratios)


def _phases(base: Run, other: Run) -> Iterator[PhaseChange]:
    for phase in Phase:
        mean_s = [run.mean_phase_s(phase) for run in (base, other)]
        if mean_s != [None, None]:
            one, two = base.phase_s.get(phase), other.phase_s.get(phase)
            difference = batches.difference(one, two) if one and two else None
            yield PhaseChange(phase=phase, base_s=mean_s[0], other_s=mean_s[1], difference_s=difference)


def _script(study: Study) -> str | None:
    """The command with paths cut down to names: two checkouts lie in two folders."""
    words = [PurePath(word).name if i == 0 else word for i, word in enumerate(study.command)]
    return " ".join(words) or None


def _of_run(look: Callable[[Run], object]) -> Callable[[Study], object]:
    return lambda study: look(study.baseline[0]) if study.baseline else None


def _samples(run: Run) -> object:
    known = [count for count in run.num_samples if count is not None]
    return f"{median(known):g}" if known else None


_MUST_AGREE: tuple[tuple[str, Callable[[Study], object]], ...] = (
    ("script and arguments", _script),
    ("device", _of_run(lambda run: run.device)),
    ("torch", _of_run(lambda run: run.versions.get("torch"))),
    ("CUDA", _of_run(lambda run: run.versions.get("cuda"))),
    ("Python", _of_run(lambda run: run.versions.get("python"))),
    ("processes that train together", _of_run(lambda run: run.world_size)),
    ("samples a step", _of_run(_samples)),
    ("processor", lambda study: study.machine.processor if study.machine is not None else None),
    ("usable cores", lambda study: study.machine.usable_cores if study.machine is not None else None),
)

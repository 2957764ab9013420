"""link: what would a slower link between machines cost a training by several processes?"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from hotlap.experiment import statistics
from hotlap.lab import Doing, Settings
from hotlap.lab.result import Cell, Quantity, Result, Table, in_words
from hotlap.machine.figures import median_interval
from hotlap.machine.in_child import measured
from hotlap.record import Interval
from hotlap.units import duration

TAKES: tuple[str, ...] = ()

SLOWEST = "1 Gbit/s"
LINKS = ("none", SLOWEST, "10 Gbit/s", "100 Gbit/s", "PCIe 4.0 x8")
"""The base, and those of `scripts.emulated_link.SPEEDS`, in that order."""
RANKS = 2
MIB = (2, 8)
QUICK_MIB = (4,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Of one pair of processes. The second index is the link's, in the order of LINKS."""

    step_s: Sequence[Sequence[Sequence[float]]]
    """Model -> link -> seconds of a step, one for each turn."""
    busy_s: Sequence[Sequence[float]]
    """Model -> link -> seconds of a step in which gradients are on it."""


def run(settings: Settings, doing: Doing) -> Result:
    """Train over each link in turns."""
    doing("training on two processes over links of several speeds, in turns")
    mib, rounds, steps = (QUICK_MIB, 5, 3) if settings.quick else (MIB, 10, 8)
    pairs = 1 if settings.quick else statistics.FEWEST_SHOWN
    return tell(mib, [timed(mib, rounds=rounds, steps=steps) for _ in range(pairs)])


def timed(mib: Sequence[int], *, rounds: int, steps: int) -> Answer:
    """One pair of processes trains models of so many MiB of gradients: `rounds` turns of `steps` steps a link."""
    return measured("hotlap.lab.scripts.links", Answer, str(rounds), str(steps), *map(str, mib))


def tell(mib: Sequence[int], answers: Sequence[Answer]) -> Result:
    """The numbers, and what they mean. `answers`: one for each pair of processes."""
    rows: list[tuple[Cell, ...]] = []
    story = []
    for model, size in enumerate(mib):
        for link, name in enumerate(LINKS):
            speed = _as_fast(answers, model, link) if link else None
            factor = None if speed is None else Quantity.of(speed, "x")
            step = Quantity.of(median_interval([one for answer in answers for one in answer.step_s[model][link]]))
            busy = Quantity(value=answers[0].busy_s[model][link]) if link else None
            rows.append((f"{size} MiB", name, busy, step, factor))
            if name == SLOWEST:
                story.append(
                    f"{size} MiB of gradients are on a link of {name} for {busy} of a step that takes "
                    f"{duration(median(answers[0].step_s[model][0]))} without one: {in_words(speed)}."
                )
    table = Table(
        title=f"A step of DDP on {RANKS} processes",
        columns=("gradients", "link", "on the link", "step", "as fast as without"),
        rows=tuple(rows),
        note="The link is emulated: gloo on this machine, and each bucket comes back no sooner than the link would let "
        "it, beside the backward pass. What it takes is known beforehand; no GPU, no NCCL.",
    )
    note = f"Pairs of processes: {len(answers)}; in each the links take turns. One thread each."
    return Result(story=tuple(story), tables=(table,), notes=(note,))


def _as_fast(answers: Sequence[Answer], model: int, link: int) -> Interval | None:
    """The pair of processes is the unit; None from too few of them."""
    if len(answers) < statistics.FEWEST_SHOWN:
        return None
    pairs = [(one.step_s[model][0], one.step_s[model][link]) for one in answers]
    return statistics.interval([math.log(median(without) / median(over)) for without, over in pairs])

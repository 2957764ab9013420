"""link: what would a slower link between machines cost a training by several processes?"""

from collections.abc import Sequence
from dataclasses import dataclass

from hotlap.lab import Doing, Settings
from hotlap.lab.result import Cell, Quantity, Result, Table
from hotlap.machine.in_child import measured

TAKES: tuple[str, ...] = ()

LINKS = ("none", "1 Gbit/s", "10 Gbit/s", "100 Gbit/s", "PCIe 4.0 x8")
"""The base, and those of `scripts.emulated_link.SPEEDS`, in that order."""
RANKS = 2
MIB, QUICK_MIB = 8, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Of one pair of processes, in the order of LINKS."""

    step_s: Sequence[Sequence[float]]
    """Link -> seconds of a step, one for each turn."""
    busy_s: Sequence[float]
    """Link -> seconds of a step in which gradients are on it."""


def run(settings: Settings, doing: Doing) -> Result:
    """Train over each link in turns."""
    doing("training on two processes over links of several speeds, in turns")
    mib, rounds, steps = (QUICK_MIB, 5, 3) if settings.quick else (MIB, 20, 8)
    return tell(mib, timed(mib, rounds=rounds, steps=steps))


def timed(mib: int, *, rounds: int, steps: int) -> Answer:
    """A pair of processes trains a model of so many MiB of gradients: `rounds` turns of `steps` steps a link."""
    return measured("hotlap.lab.scripts.links", Answer, str(rounds), str(steps), str(mib))


def tell(mib: int, answer: Answer) -> Result:
    """The numbers, and what they mean."""
    steps = [Quantity.median(turns) for turns in answer.step_s]
    busy = [None, *(Quantity(value=seconds) for seconds in answer.busy_s[1:])]
    rows: tuple[tuple[Cell, ...], ...] = tuple(zip(LINKS, busy, steps, strict=True))
    table = Table(
        title=f"A step of DDP on {RANKS} processes, {mib} MiB of gradients",
        columns=("link", "on the link", "step"),
        rows=rows,
        note="The link is emulated: gloo on this machine, and each bucket comes back no sooner than the link would let "
        "it, beside the backward pass. What it takes is known beforehand; no GPU, no NCCL.",
    )
    story = (
        f"{mib} MiB of gradients are on a link of {LINKS[1]} for {busy[1]} of a step. It takes {steps[1]} there, and "
        f"{steps[0]} without a link: what the backward pass does not hide, the step waits for."
    )
    return Result(story=(story,), tables=(table,), notes=("The links take turns. One thread each.",))

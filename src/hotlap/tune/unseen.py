"""Training was the same so far: did all that is edited have a part in it? What did not may still make it another one.

Each version runs once more, with marks at what the other one has not, for as many steps as were compared.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from hotlap.gate import Ruling
from hotlap.record import Plan, Run, Status, Verdict
from hotlap.search import GateRuns, StudyLog
from hotlap.source.marks import Edited, marked
from hotlap.units import plural

# Lines that are named; of more their number is told.
_MOST_LINES = 8


@dataclass(frozen=True, slots=True)
class Version:
    """One of the two, with marks at what the other one has not."""

    name: str
    edited: Sequence[Edited]
    plan: Plan


def with_marks(log: StudyLog, gate: GateRuns, *, before: Mapping[str, str], after: Mapping[str, str]) -> list[Version]:
    """Those of the two that have anything of their own, to be run as far as `gate` has compared them."""
    num_steps = _compared(gate)
    plan = replace(
        log.options.plan,
        # One more is a step that it does not come to.
        steps=num_steps + (gate.found[0].status is Status.ENDED),
        warmup=0,
        afresh=True,  # compilers ask when they are imported whether they are off
    )
    return [
        Version(name, edited, replace(plan, replaced={path: with_marks}))
        for name, texts, others in (("second", after, before), ("first", before, after))
        for path, text in texts.items()
        for with_marks, edited in [marked(text, others[path])]
        if edited
    ]


def without_unseen(log: StudyLog, gate: GateRuns, versions: Sequence[Version], ruling: Ruling) -> Ruling:
    """`ruling`; UNDECIDED where something that is edited had no part in what `gate` has compared."""
    if versions:
        log.doing("checking that all edited lines took part in it")
    for version, run in zip(versions, gate.made([one.plan for one in versions]), strict=True):
        unseen = [one for one in version.edited if one.marks.isdisjoint(run.marks)]
        if excused := [one for one in unseen if one.excused]:
            log.warn(
                f"Not compared: {_lines(excused)} of the {version.name} version did not run, where errors are handled "
                "or what nothing calls."
            )
        if missed := [one for one in unseen if not one.excused]:
            why = _why(f"{_lines(missed)} of the {version.name} version", _compared(gate), run)
            return Ruling(verdict=Verdict.UNDECIDED, why=why)
    return ruling


def _compared(gate: GateRuns) -> int:
    """Steps."""
    return min(len(run.step_index) for run in (gate.known[0], gate.found[0]))


def _why(lines: str, num_steps: int, run: Run) -> str:
    same = f"Both train the same in the {plural(num_steps, 'step')} that were compared, but"
    if run.status not in (Status.COMPLETE, Status.ENDED):
        reason = (run.error or run.status).rstrip(".")
        return f"{same} it is not known whether {lines} had a part in them: the run that looked ended early ({reason})."
    return (
        f"{same} {lines} had no part in them: did not run, or set what was not used. Let the training come there "
        "sooner: fewer epochs, steps or samples, by an argument of the script."
    )


def _lines(edited: Iterable[Edited]) -> str:
    """ "lines 12, 13 and 20"."""
    numbers = list(dict.fromkeys(str(one.line) for one in edited))
    if len(numbers) > _MOST_LINES:
        numbers = [*numbers[:_MOST_LINES], f"{len(numbers) - _MOST_LINES} more"]
    *most, last = numbers
    return f"lines {', '.join(most)} and {last}" if most else f"line {last}"

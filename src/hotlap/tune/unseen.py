"""Training was the same so far: did all that is edited have a part in it? What did not may still make it another one.

Each version runs once more, with marks at what the other one has not, for as many steps as were compared.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from hotlap.experiment import Sizes
from hotlap.gate import Ruling
from hotlap.record import Run, Status, Verdict
from hotlap.search import GateRuns, StudyLog
from hotlap.source.marks import Edited, marked
from hotlap.units import plural

# Lines that are named; of more their number is told.
_MOST_LINES = 8

# A run with marks compiles nothing, so its steps may take longer: it is given so many times what a run for the gate
# takes, and so many seconds more. One that is cut short is no harm, but what it did not come to is not believed in.
_PATIENCE, _MORE_S = 4, 60.0


def without_unseen(
    log: StudyLog, sizes: Sizes, gate: GateRuns, ruling: Ruling, *, before: Mapping[str, str], after: Mapping[str, str]
) -> Ruling:
    """`ruling`; UNDECIDED where something that is edited had no part in what `gate` has compared."""
    num_steps = min(len(run.step_index) for run in (gate.known[0], gate.found[0]))
    has_ended = gate.found[0].status is Status.ENDED
    for name, texts, others in (("second", after, before), ("first", before, after)):
        for path, text in texts.items():
            with_marks, edited = marked(text, others[path])
            if not edited:
                continue
            log.doing(f"looking whether all that is edited in the {name} version has a part in it")
            run = _with_marks(log, sizes, {path: with_marks}, num_steps=num_steps, to_its_end=has_ended)
            unseen = [one for one in edited if one.marks.isdisjoint(run.marks)]
            if excused := [one for one in unseen if one.excused]:
                log.warn(
                    f"Not compared: {_lines(excused)} of the {name} version did not run, where errors are handled or "
                    "what nothing calls."
                )
            if missed := [one for one in unseen if not one.excused]:
                why = _why(f"{_lines(missed)} of the {name} version", num_steps, run)
                return Ruling(verdict=Verdict.UNDECIDED, why=why)
    return ruling


def _with_marks(log: StudyLog, sizes: Sizes, replaced: Mapping[str, str], *, num_steps: int, to_its_end: bool) -> Run:
    plan = replace(
        log.options.plan,
        steps=num_steps + to_its_end,  # one that it does not come to
        warmup=0,
        afresh=True,  # compilers ask when they are imported whether they are off
        replaced=replaced,
    )
    (run,) = log.runs([plan], limit_s=_PATIENCE * sizes.evidence_s(num_steps) + _MORE_S)
    return run


def _why(lines: str, num_steps: int, run: Run) -> str:
    why = (
        f"Both train the same in the {plural(num_steps, 'step')} that were compared, but {lines} had no part in them: "
        "did not run, or set what was not used. Let the training come there sooner: fewer epochs, steps or samples, by "
        "an argument of the script."
    )
    if run.status in (Status.COMPLETE, Status.ENDED):
        return why
    return f"{why} (The run that looked for them did not get so far: {(run.error or run.status).rstrip('.')}.)"


def _lines(edited: Iterable[Edited]) -> str:
    """ "lines 12, 13 and 20"."""
    numbers = list(dict.fromkeys(str(one.line) for one in edited))
    if len(numbers) > _MOST_LINES:
        numbers = [*numbers[:_MOST_LINES], f"{len(numbers) - _MOST_LINES} more"]
    *most, last = numbers
    return f"lines {', '.join(most)} and {last}" if most else f"line {last}"

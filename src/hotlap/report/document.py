"""Study -> what a report says, section by section: words are chosen here, and a format only lays them out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from hotlap.record import LEAST_GAIN, Phase, Run, Study, Trial, Verdict
from hotlap.report import outcome, story
from hotlap.report.clean import clean, last_lines
from hotlap.report.findings import change_lines, cost, next_commands, other_phases, remedy
from hotlap.units import duration, factor, percent

VERDICTS = {Verdict.UNHARMED: "passes", Verdict.HARMED: "fails", Verdict.UNDECIDED: "inconclusive"}
"""The gate's verdict, as people say it."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a section."""

    head: str
    text: str = ""
    note: str = ""
    """What it costs, or brings; stands beside the head."""
    aside: str = ""
    """Less important than `text`."""
    code: tuple[str, ...] = ()
    """Lines of a diff: what a person would change."""
    mark: str = ""
    """What became of it, in one or two words."""
    good: bool = False
    verdict: Verdict | None = None
    """Of the gate; None where nothing was asked of it."""
    phase: Phase | None = None
    share: float = 0.0
    """Of a step, in [0, 1]; for a row that is a phase."""

    @property
    def gate(self) -> str:
        """What the gate said."""
        return "not asked" if self.verdict is None else VERDICTS[self.verdict]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One thing to know, from its title to its last note."""

    name: str
    title: str
    lead: str = ""
    """A sentence or two; empty where the rows say all."""
    rows: tuple[Row, ...] = ()
    notes: tuple[str, ...] = ()
    output: str = ""
    """The end of what a script that failed printed, in lines, as it is."""


# Means that are as many times as large as the median hold a few long steps, such as the first of an epoch.
_LONG_STEPS = 1.25

# Of such output: a traceback, without the hours of progress before it.
OUTPUT_LINES = 30


def time_per_step(study: Study) -> Section:
    """What the baseline's step is spent on, and in one line what it is spent on afterwards: where there is a run under
    the levers, of the one beside it, for the machine may have been busier when the baseline was looked at."""
    run, looked_at = story.pictured(study), story.timed(study)
    if run is None or not run.step_s:
        lead = "Not measured yet." if run is None else story.failure(run) or "No step was recorded."
        return Section(name="time", title="Time per step", lead=lead, output=_output(run))
    parts = story.phases(run)
    rows = tuple(
        Row(part.phase.value, percent(part.share), duration(part.mean_s), phase=part.phase, share=part.share)
        for part in parts
        if part.mean_s is not None
    )
    unknown = ", ".join(part.phase.value for part in parts if part.mean_s is None and part.phase not in _absent(run))
    notes = [f"not measured: {unknown}"] if unknown else [] if rows else ["What it was spent on was not measured."]
    after = study.after
    if after is not None and after.step_s:
        medians = f"{duration(run.median_step_s())} -> {duration(after.median_step_s())}"
        parts_after = (f"{one.phase.value} {duration(one.mean_s)}" for one in story.phases(after) if one.mean_s)
        longest = ""
        if after.mean_step_s() > _LONG_STEPS * after.median_step_s():
            longest = f", in which the longest step, of {duration(max(after.step_s))}, counts"
        told = f"optimized, in the mean{longest}: {', '.join(parts_after)}"
        notes.append(f"{told}; compared in turns, the median step {medians}")
    notes += [story.loss_sentence(run)] if run.loss else []
    failure = story.failure(run)
    lead = story.step_sentence(run) if failure is None else f"{failure} {story.step_sentence(run)}"
    return Section(
        name="time",
        title="Time per step",
        lead=lead,
        rows=rows,
        notes=(*notes, *(f"note: {one}" for one in (looked_at or run).notes)),
        output=_output(run),
    )


def _absent(run: Run) -> set[Phase]:
    """What a training on the CPU, or of one process, does not have, and so nobody misses."""
    alone = {Phase.COMMUNICATION} if run.world_size == 1 else set()
    return alone | ({Phase.TRANSFER, Phase.SYNC} if run.device == "cpu" else set())


def _output(run: Run | None) -> str:
    return last_lines(run.output, OUTPUT_LINES) if run is not None and story.failure(run) is not None else ""


def findings(study: Study) -> Section:
    """The diagnoses, costliest first, and which usual causes it is not."""
    rows = tuple(
        Row(one.code, one.evidence, cost(study, one), remedy(study, one), change_lines(study, one))
        for one in study.findings
    )
    lead = ""
    if not rows:
        measured = any(run.step_s for run in study.baseline)
        lead = "No rule found a bottleneck." if measured else "Not known: no step was measured."
    other = other_phases(study)
    return Section(name="findings", title="Findings", lead=lead, rows=rows, notes=(other,) if other else ())


def ceilings(study: Study) -> Section:
    """How much could be gained at best."""
    rows = tuple(
        Row(
            f"at most {factor(one.speedup.high)}",
            f"If {story.ideal(one)} were free: {factor(one.speedup.mid)}, {duration(one.step_s)} a step (95% interval "
            f"{one.speedup.ends}); {one.idealised}.",
        )
        for one in study.ceilings
        if one.speedup.high >= LEAST_GAIN
    )
    low = ", ".join(story.ideal(one) for one in study.ceilings if one.speedup.high < LEAST_GAIN)
    notes = (f"Less than {factor(LEAST_GAIN)} if free: {low}.",) if low else ()
    run = story.timed(study)
    of_trace = run is not None and run.from_trace
    none = "Nothing would gain 1%, or steps are too few to tell." if of_trace else "Not measured."
    return Section(name="ceilings", title="Upper bounds", lead="" if rows or notes else none, rows=rows, notes=notes)


def noise(study: Study) -> Section:
    """What can be told from chance, here and now."""
    lines = [f"{line[:1].upper()}{line[1:]}." for line in map(story.noise_sentence, study.noise)]
    return Section(name="noise", title="Noise", lead=" ".join(lines) or "Not measured: small gains may be chance.")


def trial(one: Trial) -> Row:
    """One thing that was tried."""
    return Row(
        story.trial_subject(one),
        note=story.trial_speedup(one),
        aside=story.trial_why(one),
        mark=story.trial_outcome(one),
        good=one.accepted,
        verdict=one.verdict if story.asked_the_gate(one) else None,
    )


def trials(study: Study) -> Section:
    """All that was tried; what does not apply here is a line."""
    begun = story.begun(study)
    lead = "Speed-up of the step over what was accepted before, with its 95% interval."
    if not begun:
        lead = "Nothing was tried." if any(run.step_s for run in study.baseline) else "Nothing could be tried."
    apart = story.not_applying(study)
    notes = (apart,) if apart else ()
    return Section(name="trials", title="Trials", lead=lead, rows=tuple(_trials(begun)), notes=notes)


def _trials(begun: Sequence[Trial]) -> Iterator[Row]:
    """Those that failed for one reason are one row."""
    alike: dict[object, list[Trial]] = {}
    for number, one in enumerate(begun):
        alike.setdefault(number if one.failure is None else (one.failure, one.why), []).append(one)
    for first, *others in alike.values():
        yield replace(trial(first), head=", ".join(map(story.trial_subject, (first, *others))))


def recipe(study: Study) -> Section | None:
    """Larger batches; None where nobody asked for them."""
    lines = story.recipe_lines(study)
    title = "Larger batches (another training, so not in the patch)"
    return Section(name="recipe", title=title, notes=lines) if lines else None


def predictions(study: Study) -> Section | None:
    """The step on hardware that is not there; None without a prediction."""
    rows = tuple(
        Row(
            one.title,
            story.prediction_sentence(one),
            aside=f"assumptions: {'; '.join(one.assumptions) or 'none was recorded'}",
        )
        for one in study.predictions
    )
    return Section(name="predictions", title="Elsewhere (predicted)", rows=rows) if rows else None


def warnings(study: Study) -> Section | None:
    """What the reader should know, and the answer does not say already; None without a warning."""
    answer = outcome.conclusion(study).sentence
    notes = tuple(warning for warning in study.warnings if warning not in answer)
    return Section(name="warnings", title="Warnings", notes=notes) if notes else None


def sections(study: Study) -> tuple[Section, ...]:
    """All but the answer and the closer look, in the order in which a study comes to know them."""
    known = not outcome.nothing_known(study)
    tuned = outcome.is_tuned(study)
    found = (
        time_per_step(study),
        findings(study) if known else None,
        ceilings(study) if known else None,
        noise(study) if study.noise or (known and tuned) else None,
        trials(study) if known and tuned else None,
        recipe(study),
        predictions(study),
        warnings(study),
    )
    return tuple(one for one in found if one is not None)


# The first that a line begins with; a removed line "-- x" reads as the name of a file, which only colours it.
_DIFF_LINES = {"--- ": "file", "+++ ": "file", "@@": "hunk", "+": "added", "-": "removed", "": "same"}


def diff_lines(patch: str | None) -> tuple[tuple[str, str], ...]:
    """A patch, cleaned: (file, hunk, added, removed or same; the line with its sign)."""
    # Cleaned first: what is cleaned away (a form feed, a "\r") may look like the end of a line.
    lines = clean(patch).rstrip("\n").split("\n") if patch else []
    return tuple((next(kind for begin, kind in _DIFF_LINES.items() if one.startswith(begin)), one) for one in lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(outcome.Conclusion):
    """What a study comes to, and what to do about it: the end of what a terminal shows, and the head of a page."""

    lines: tuple[str, ...]
    """What is to be known before anything is done."""
    code: tuple[str, ...] = ()
    """The change that is proposed by hand, as lines of a diff."""
    commands: tuple[tuple[str, str], ...] = ()
    """(command, what it does)."""


def answer(study: Study) -> Answer:
    """The answer."""
    found = outcome.conclusion(study)
    if outcome.is_tuned(study):
        lines = outcome.result_lines(study)
        code: tuple[str, ...] = ()
        commands = (*outcome.start_commands(study), *outcome.apply_commands(study), *outcome.again_commands(study))
    else:
        first = next(iter(study.findings), None)
        fewer = study.sweep.fewer if study.sweep is not None else ""
        lines = (*([fewer] if fewer else []), *([f"Next, {first.code}: {first.evidence}"] if first is not None else []))
        code = () if first is None else tuple(line for line in change_lines(study, first) if line[0] != "$")
        commands = tuple(next_commands(study))
    return Answer(
        outcome=found.outcome, title=found.title, sentence=found.sentence, lines=lines, code=code, commands=commands
    )

"""Study -> text for a terminal, 100 columns wide; each section can also be printed alone, as soon as it is known.

Meaning is never told by colour alone. Every text of the study goes through `_text`, which cleans it and keeps rich's
markup from being read.
"""

from collections.abc import Callable, Iterator, Mapping
from io import StringIO

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text

from hotlap.record import Finding, Phase, Purpose, Run, Study, Trial, Verdict
from hotlap.report import diff, outcome, story
from hotlap.report.clean import clean, clean_line, last_lines
from hotlap.report.details import Detail, closer_look, details, sweep
from hotlap.units import duration, factor, percent

WIDTH = 100
# Of the script's own output: a traceback, without the hours of progress before it.
OUTPUT_LINES = 30

PHASE_STYLES = {
    Phase.INPUT: "yellow",
    Phase.TRANSFER: "bright_yellow",
    Phase.FORWARD: "blue",
    Phase.BACKWARD: "cyan",
    Phase.COMMUNICATION: "magenta",
    Phase.OPTIMIZER: "green",
    Phase.SYNC: "red",
    Phase.OTHER: "bright_black",
}
DIFF_STYLES = {
    diff.Kind.FILE: "bold",
    diff.Kind.HUNK: "cyan",
    diff.Kind.ADDED: "green",
    diff.Kind.REMOVED: "red",
    diff.Kind.SAME: "",
}
VERDICT_STYLES = {Verdict.UNHARMED: "green", Verdict.HARMED: "bold red", Verdict.UNDECIDED: "yellow"}


def render(study: Study) -> str:
    """The whole study as plain text."""
    out = StringIO()
    # An empty environment: the text is the same whatever FORCE_COLOR, COLUMNS or TERM say.
    console = Console(
        file=out,
        width=WIDTH,
        force_terminal=False,
        color_system=None,
        legacy_windows=False,
        highlight=False,
        _environ={},
    )
    for section in (headline, waiting, warnings) if outcome.nothing_known(study) else SECTIONS[study.purpose]:
        shown = section(study)
        if shown is not None:
            console.print(shown)
            console.print()
    return "\n".join(line.rstrip() for line in out.getvalue().split("\n")).strip("\n") + "\n"


def headline(study: Study) -> RenderableType:
    """What was studied, and what the study comes to."""
    conclusion = outcome.conclusion(study)
    command = Text.assemble(("hotlap  ", "bold"), _text(story.script(study), "bold"))
    title = _text(conclusion.title, "bold reverse" if conclusion.outcome is outcome.Outcome.GAIN else "bold")
    return Group(command, Text.assemble(title, "  ", _text(conclusion.sentence)))


def waiting(study: Study) -> RenderableType:
    """What each step of the script as written waits for."""
    run = story.timed(study)
    if run is None:
        return _section("What each step waits for", Text("Not measured yet."))
    return _section("What each step waits for", *_run(run))


def seen(study: Study) -> RenderableType | None:
    """What else was seen of the script as written; None where nothing was looked at."""
    return _closer(closer_look(study))


def seen_in_run(study: Study) -> RenderableType | None:
    """The part of it that the first run shows."""
    run = story.timed(study)
    return _closer(details(run)) if run is not None else None


def threads(study: Study) -> RenderableType | None:
    """The part of it that later runs show."""
    found = sweep(study.sweep)
    return _closer((found,)) if found is not None else None


def _closer(found: tuple[Detail, ...]) -> RenderableType | None:
    parts: list[RenderableType] = []
    for detail in found:
        parts.append(_text(detail.title, "bold"))
        if detail.lead:
            parts.append(Padding(_text(detail.lead), (0, 0, 0, 2)))
        table = _columns(22, None)
        for cost, what in detail.rows:
            table.add_row(_text(cost), _text(what))
        if detail.rows:
            parts.append(Padding(table, (0, 0, 0, 2)))
    return _section("A closer look", *parts) if parts else None


def findings(study: Study) -> RenderableType:
    """The diagnoses, costliest first."""
    if not study.findings:
        known = "No rule found a bottleneck." if _has_steps(study) else "Not known: no step was measured."
        return _section("Findings", Text(known))
    table = _columns(16, 24, None)
    for finding in story.ranked(study):
        cost = f"{story.up_to(finding)}{duration(finding.cost_s)}, {story.share_of_step(finding.share)}"
        levers = ", ".join(finding.try_levers)
        tried = _text(f"worth trying: {levers}" if levers else "no lever for it", "dim")
        told = Group(_text(finding.evidence), *_by_hand(study, finding), tried)
        table.add_row(_text(finding.code, "bold"), cost, told)
    return _section("Findings", table)


def _by_hand(study: Study, finding: Finding) -> Iterator[RenderableType]:
    """What a person would change, as text."""
    command = story.command_under(study, finding.environment)
    if command is not None:
        yield _text(f"start it with: {command}")
    colours = {"@": "dim", "-": "red"}
    yield from (Text(line, colours.get(line[0], "green")) for line in story.change_lines(finding))


def ceilings(study: Study) -> RenderableType:
    """How much could be gained at best."""
    if not study.ceilings:
        return _section("Ceilings", Text("Not measured."))
    lines = []
    for ceiling in study.ceilings:
        rest = f"({story.interval(ceiling.speedup)}; {ceiling.idealised}), {duration(ceiling.step_s)} a step"
        lines.append(Text.assemble(_text(story.ceiling_sentence(ceiling), "bold"), " ", _text(rest)))
    return _section("Ceilings", *lines)


def noise(study: Study) -> RenderableType | None:
    """What can be told from chance, here and now; None where nothing is compared."""
    if not study.noise:
        if not outcome.is_tuned(study):
            return None
        return _section("Noise", Text("Not measured: small gains may be chance."))
    lines = (story.noise_sentence(noise) for noise in study.noise)
    return _section("Noise", *(_text(f"{line[:1].upper()}{line[1:]}.") for line in lines))


def trials(study: Study) -> RenderableType:
    """Each thing that was tried."""
    if not study.trials:
        return _section("Trials", Text("Nothing was tried." if _has_steps(study) else "Nothing could be tried."))
    note = Text("speed-up of the step over what was accepted before, with its 95% interval", "dim")
    tried = [trial(one) for one in study.trials if one.scope != "none"]
    return _section("Trials", *([note, *tried] if tried else [Text("None was begun.")]), *not_tried_lines(study))


def not_tried(study: Study) -> RenderableType | None:
    """Levers that do not fit here, in one paragraph; None where there are none. Why is in the page and the JSON."""
    lines = not_tried_lines(study)
    return Group(*lines, Text()) if lines else None


def not_tried_lines(study: Study) -> list[RenderableType]:
    """As `not_tried`, without the blank line behind it."""
    names = [story.trial_subject(one) for one in study.trials if one.scope == "none"]
    return [_text(f"Not tried: {', '.join(names)} (the report's page says why of each).", "dim")] if names else []


def trial(one: Trial) -> RenderableType:
    """One trial; stands in columns below the others when printed one after another."""
    table = _columns(13, 44, 21, None)
    mark = "+" if one.accepted else "-"
    table.add_row(
        _text(f"{mark} {story.trial_outcome(one)}", "bold green" if one.accepted else ""),
        _text(story.trial_subject(one), "bold" if one.accepted else ""),
        _text(story.trial_speedup(one)),
        _verdict(one.verdict),
    )
    return Group(table, Padding(_text(story.trial_why(one), "dim"), (0, 0, 0, 15)))


def levers(study: Study) -> RenderableType:
    """What is accepted."""
    accepted = outcome.accepted(study)
    if not accepted:
        return _section("Accepted levers", Text("None."))
    return _section("Accepted levers", *(_text(f"+ {story.lever_title(spec)}", "green") for spec in accepted))


def verdict(study: Study) -> RenderableType:
    """Whether training is unharmed, and what says so."""
    if study.result is None:
        return _section("Is training unharmed?", Text("No verdict: there is nothing to judge, or it was not reached."))
    line = Text.assemble(_verdict(study.result.verdict), "  ", _text(study.result.why or "No reason was recorded."))
    return _section("Is training unharmed?", line)


def speedup(study: Study) -> RenderableType:
    """The gain over the script as written."""
    if study.result is None:
        return _section("Speed-up", Text("No speed-up over the script as written was established."))
    over = study.result.speedup
    if not study.result.levers:
        return _section("Speed-up", Text("None: the script stays as it is."))
    total = study.result.total_speedup
    lines: list[RenderableType] = [_text(outcome.total_sentence(study, total), "bold")] if total is not None else []
    gain = f"A typical step: {factor(over.mid)} as fast as written (95% interval {story.interval(over)})."
    lines.append(_text(f"{gain} Both in fresh processes."))
    cost = story.cost_sentence(study)
    if cost is not None:
        lines.append(_text(cost))
    if study.after is not None and study.after.step_s:
        lines.extend(_run(study.after))
    return _section("Speed-up", *lines)


def patch(study: Study) -> RenderableType:
    """The change as a diff, and how to apply it."""
    lines = [_text(line) for line in outcome.start_lines(study)]
    start = [Text(), _section("To start it", *lines)] if lines else []
    if not study.patch:
        return Group(_section("Patch", Text(outcome.patch_missing(study))), *start)
    # `clean` first: what is cleaned away (a form feed, a "\r") may look like the end of a line.
    changed = Text("\n").join(Text(line.text, DIFF_STYLES[line.kind]) for line in diff.lines(clean(study.patch)))
    changed.no_wrap, changed.overflow = True, "ignore"
    caution = outcome.caution(study)
    apply = [Text(caution, "bold")] if caution is not None else []
    apply.append(_text(outcome.runs_on(study) or ""))
    apply.extend(_text(line, keep_blanks=True) for line in outcome.apply_lines(study))
    return Group(_section("Patch", changed), Text(), _section("To apply it", *apply), *start)


def recipe(study: Study) -> RenderableType | None:
    """Larger batches; None where nobody asked for them."""
    lines = story.recipe_lines(study)
    return _section("Larger batches (another training, so not in the patch)", *map(_text, lines)) if lines else None


def predictions(study: Study) -> RenderableType | None:
    """The step on hardware that is not there; None without a prediction."""
    if not study.predictions:
        return None
    table = _columns(24, None)
    for one in study.predictions:
        assumed = "; ".join(one.assumptions) or "none was recorded"
        told = Group(_text(story.prediction_sentence(one)), _text(f"assumptions: {assumed}", "dim"))
        table.add_row(_text(f"{one.count} x {one.device}", "bold"), told)
    return _section("Elsewhere (predicted)", table)


def warnings(study: Study) -> RenderableType | None:
    """What the reader should know; None without a warning."""
    if not study.warnings:
        return None
    table = _columns(1, None)
    for warning in study.warnings:
        table.add_row(Text("!", "bold yellow"), _text(warning))
    return _section("Warnings", table)


Section = Callable[[Study], RenderableType | None]

SECTIONS: Mapping[Purpose, tuple[Section, ...]] = {
    Purpose.TUNE: (
        headline,
        waiting,
        findings,
        ceilings,
        seen,
        noise,
        trials,
        levers,
        verdict,
        speedup,
        patch,
        recipe,
        predictions,
        warnings,
    ),
    Purpose.MEASURE: (headline, waiting, findings, ceilings, seen, noise, predictions, warnings),
}

PARTS: Mapping[tuple[Purpose, str], tuple[Section, ...]] = {
    **{(purpose, "baseline"): (waiting,) for purpose in Purpose},
    **{(purpose, "findings"): (findings, seen_in_run) for purpose in Purpose},
    **{(purpose, "sweep"): (threads,) for purpose in Purpose},
    **{(purpose, "ceilings"): (ceilings,) for purpose in Purpose},
    **{(purpose, "noise"): (noise,) for purpose in Purpose},
    (Purpose.TUNE, "end"): (not_tried, levers, verdict, speedup, patch, recipe, warnings),
    (Purpose.MEASURE, "end"): (warnings,),
}
"""What is new in the report when a part of the study is known."""


def _has_steps(study: Study) -> bool:
    return any(run.step_s for run in study.baseline)


def _run(run: Run) -> Iterator[RenderableType]:
    """Phases, losses, notes, and how the run ended if not well."""
    failure = story.failure(run)
    if failure is not None:
        yield _text(failure, "bold")
        output = last_lines(run.output, OUTPUT_LINES)
        if output:
            yield Text("the end of what it printed:", "dim")
            yield Padding(Text(output), (0, 0, 0, 2))
    if run.step_s:
        yield _text(story.step_sentence(run))
        parts = story.phases(run)
        yield _phases(parts) if parts else Text("What it was spent on was not measured.")
        if run.loss:
            yield _text(story.loss_sentence(run))
    for note in run.notes:
        yield _text(f"note: {note}")


def _phases(parts: tuple[story.PhasePart, ...]) -> RenderableType:
    """A row for each phase; the bars stand end to end, so together they are the step."""
    table = _columns(13, 9, 4, None)
    table.columns[1].justify = table.columns[2].justify = "right"
    start = 0.0
    for part in parts:
        if part.mean_s is None:
            continue
        bar = Bar(start=start, end=start + part.share, style=PHASE_STYLES[part.phase])
        table.add_row(part.phase.value, duration(part.mean_s), percent(part.share), bar)
        start += part.share
    unknown = ", ".join(part.phase.value for part in parts if part.mean_s is None)
    return Group(table, Text(f"not measured: {unknown}", "dim")) if unknown else table


class Bar:
    """The part from `start` to `end`, both in [0, 1], of the width that there is; at least one cell."""

    def __init__(self, *, start: float, end: float, style: str) -> None:
        self._start = start
        self._end = end
        self._style = style

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        first = min(round(self._start * width), width - 1)
        num_cells = max(1, min(round(self._end * width), width) - first)
        cell = "#" if options.ascii_only else "\N{FULL BLOCK}"
        yield Segment(" " * first + cell * num_cells, Style.parse(self._style))

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(4, options.max_width)


def _verdict(verdict: Verdict) -> Text:
    return Text(verdict.value, VERDICT_STYLES[verdict])


def _section(title: str, *parts: RenderableType) -> RenderableType:
    return Group(Text(title, "bold underline"), Padding(Group(*parts), (0, 0, 0, 2)))


def _columns(*widths: int | None) -> Table:
    """A table without lines; a width of None is what is left."""
    table = Table.grid(padding=(0, 2, 0, 0), expand=True)
    for width in widths:
        table.add_column(width=width, ratio=None if width is not None else 1, overflow="fold")
    return table


def _text(text: str, style: str = "", *, keep_blanks: bool = False) -> Text:
    """`text` of a study as one line of text: cleaned, its markup inert."""
    return Text(clean(text).replace("\n", " ") if keep_blanks else clean_line(text), style)

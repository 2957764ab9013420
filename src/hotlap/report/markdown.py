"""Study -> Markdown for a pull request or an issue: what was measured, in tables that a reviewer reads in a minute.

Texts of the study are foreign: each character that Markdown or HTML could act upon is escaped, and what a code host
turns into a link or a mention by itself is broken up by an empty comment.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from hotlap.record import Run, Study
from hotlap.report import outcome, story
from hotlap.report.clean import clean, clean_line, last_lines
from hotlap.report.details import closer_look
from hotlap.report.terminal import OUTPUT_LINES
from hotlap.units import duration, percent

# https://github.github.com/gfm/: punctuation that may be escaped by a backslash (6.1), and what links by itself (6.9).
_PUNCTUATION = re.compile(r"([\\`*_\[\]|~$])")
_LINKS = re.compile(r"(?i)(://|www\.|@|#)")
_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def render(study: Study) -> str:
    """The study in short; a patch and what a crashed script printed are folded away."""
    return "\n".join(_lines(study)).strip("\n") + "\n"


def _lines(study: Study) -> Iterator[str]:
    conclusion = outcome.conclusion(study)
    yield f"## {_text(conclusion.title)}"
    yield ""
    yield f"`{_code(story.script(study))}`: {_text(conclusion.sentence)}"
    run = story.timed(study)
    if run is not None:
        yield from _run(run)
    yield from _findings(study)
    yield from _ceilings(study)
    if outcome.is_tuned(study):
        yield from _trials(study)
    yield from _details(study)
    yield from _patch(study)
    if study.warnings:
        yield ""
        yield "**Warnings**"
        yield ""
        yield from (f"- {_text(warning)}" for warning in study.warnings)


def _run(run: Run) -> Iterator[str]:
    failure = story.failure(run)
    if failure is not None:
        yield ""
        yield f"**{_text(failure)}**"
        output = last_lines(run.output, OUTPUT_LINES)
        if output:
            yield from _fence(output)
    if not run.step_s:
        return
    yield ""
    yield _text(story.step_sentence(run))
    rows = [
        (part.phase.value, "not measured" if part.mean_s is None else duration(part.mean_s), percent(part.share))
        for part in story.phases(run)
        if part.mean_s is not None
    ]
    yield from _table(("phase", "mean", "of a step"), rows)
    if run.loss:
        yield ""
        yield _text(story.loss_sentence(run))


def _findings(study: Study) -> Iterator[str]:
    if not study.findings:
        return
    ranked = story.ranked(study)
    rows = [
        (finding.code, f"{story.up_to(finding)}{duration(finding.cost_s)} ({percent(finding.share)})", finding.evidence)
        for finding in ranked
    ]
    yield from _table(("finding", "a step", "evidence"), rows)
    for finding in ranked:
        command = story.command_under(study, finding.environment)
        if command is not None:
            yield from _fence(clean_line(command), language="sh")
        if finding.after:
            yield from _fence("\n".join(story.change_lines(finding)), language="diff")


def _ceilings(study: Study) -> Iterator[str]:
    rows = [
        (story.ceiling_sentence(ceiling), story.interval(ceiling.speedup), ceiling.idealised)
        for ceiling in study.ceilings
    ]
    yield from _table(("at best", "95% interval", "idealised"), rows)


def _trials(study: Study) -> Iterator[str]:
    rows = [
        (story.trial_outcome(one), story.trial_subject(one), story.trial_speedup(one), one.verdict.value)
        for one in study.trials
    ]
    yield from _table(("", "trial", "speed-up", "training"), rows)
    if study.result is not None:
        yield ""
        yield f"**{study.result.verdict.value}**: {_text(study.result.why)}"
        cost = story.cost_sentence(study)
        if cost is not None:
            yield ""
            yield _text(cost)
    if study.recipe is not None:
        yield ""
        yield "**Larger batches** (another training, so no part of the patch)"
        yield ""
        yield from (f"- {_text(line)}" for line in story.recipe_lines(study))


def _details(study: Study) -> Iterator[str]:
    found = closer_look(study)
    if not found:
        return
    yield ""
    yield "<details><summary>A closer look</summary>"
    for detail in found:
        yield ""
        yield f"**{_text(detail.title)}**"
        if detail.lead:
            yield ""
            yield _text(detail.lead)
        yield from _table(("cost", "what"), detail.rows)
    yield ""
    yield "</details>"


def _patch(study: Study) -> Iterator[str]:
    start = outcome.start_lines(study)
    if start:
        yield ""
        yield _text(start[0])
        yield from _fence(clean_line(start[1]), language="sh")
    if not study.patch:
        return
    caution = outcome.caution(study)
    yield ""
    if caution is not None:
        yield f"**{_text(caution)}**"
        yield ""
    yield _text(outcome.runs_on(study) or "")
    yield ""
    yield "<details><summary>The patch</summary>"
    yield from _fence(clean(study.patch).rstrip("\n"), language="diff")
    yield ""
    yield "</details>"


def _table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Nothing at all without rows."""
    rows = list(rows)
    if not rows:
        return
    yield ""
    yield f"| {' | '.join(names)} |"
    yield f"|{' --- |' * len(names)}"
    for row in rows:
        yield f"| {' | '.join(_text(cell) for cell in row)} |"


def _fence(text: str, language: str = "text") -> Iterator[str]:
    """`text` as a block of code, in a fence longer than any within it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    yield ""
    yield f"{fence}{language}"
    yield text
    yield fence


def _code(text: str) -> str:
    """Inside of single backticks: none of its own."""
    return clean_line(text).replace("`", "'") or " "


def _text(text: str) -> str:
    """A text of the study, inert."""
    escaped = _PUNCTUATION.sub(r"\\\1", clean_line(text))
    for char, entity in _HTML.items():
        escaped = escaped.replace(char, entity)
    return _LINKS.sub(lambda match: f"{match[1]}<!-- -->", escaped)

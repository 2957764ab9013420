"""Study -> one self-contained HTML page: no script, no network, light and dark, for screens of any width.

The page's policy forbids scripts and everything that would be fetched. Every text of the study is cleaned of control
characters by `finalize` and then escaped by Jinja2, at each place where the template shows one.
"""

import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from hotlap.record import Study
from hotlap.report import charts, devices, diff, document, environment, lanes, outcome, series, story
from hotlap.report.clean import clean
from hotlap.report.details import closer_look
from hotlap.units import duration, percent


def render(study: Study) -> str:
    """The whole study as one page."""
    before, pictured = story.timed(study), story.pictured(study)
    return _page().render(
        study=study,
        before=before,
        pictured=pictured,
        answer=document.answer(study),
        sections=defaultdict(lambda: None, {one.name: one for one in document.sections(study)}),
        timeline=lanes.timeline(pictured, study.after),
        phase_bars=charts.phase_bars(pictured, study.after),
        losses=series.losses(pictured, study.after),
        device_plot=Markup(devices.plot(study.predictions)),
        memory=series.memory(before),
        step_times=series.step_times(before),
        details=closer_look(study),
        diff_lines=tuple(diff.lines(clean(study.patch))) if study.patch else (),
        environment=environment.rows(study),
    )


@cache
def _page() -> Template:
    jinja = Environment(
        loader=FileSystemLoader(Path(__file__).parent, encoding="utf-8"),
        autoescape=True,
        finalize=_cleaned,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    jinja.filters["prose"] = _prose
    jinja.globals.update(
        outcome=outcome,
        story=story,
        letters=story.LETTERS,
        duration=duration,
        percent=percent,
    )
    return jinja.get_template("page.html.j2")


def _cleaned(value: Any) -> Any:
    """What the template shows: texts without control characters; markup of the template itself as it is."""
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
_CODE = re.compile(r"`([^`]+)`")


def _prose(text: str) -> Markup:
    """A sentence: what stands in backticks is code, and a line does not end within the name of an option."""
    kept = _OPTION.sub(r'<span class="option">\g<0></span>', str(escape(clean(text))))
    return Markup(_CODE.sub(r"<code>\1</code>", kept))

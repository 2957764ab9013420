"""Study -> one self-contained HTML page: no script, no network, light and dark, for any width.

The page's policy forbids scripts and everything that would be fetched. Every text of the study is cleaned of control
characters by `finalize` and then escaped by Jinja2, at each place where the template shows one.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from hotlap.record import Phase, Run, Study
from hotlap.report import document, lanes, outcome, story
from hotlap.report.clean import clean
from hotlap.report.details import closer_look
from hotlap.units import duration, percent, size


def render(study: Study) -> str:
    """The whole study as one page."""
    before, pictured = story.timed(study), story.pictured(study)
    runs = [run for run in (pictured, study.after) if run is not None and run.step_s]
    page = _templates().get_template("page.html.j2")
    return page.render(
        study=study,
        before=before,
        pictured=pictured,
        answer=document.answer(study),
        sections=defaultdict(lambda: None, {one.name: one for one in document.sections(study)}),
        timeline=lanes.timeline(pictured, study.after),
        phase_bars=list(_bars(runs)),
        details=closer_look(study),
        diff_lines=document.diff_lines(study.patch),
        environment=_environment(study),
    )


@cache
def _templates() -> Environment:
    jinja = Environment(
        loader=FileSystemLoader(Path(__file__).parent, encoding="utf-8"),
        autoescape=True,
        finalize=_cleaned,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    jinja.filters["prose"] = _prose
    jinja.globals.update(outcome=outcome, story=story, letters=story.LETTERS, duration=duration, percent=percent)
    return jinja


def _cleaned(value: Any) -> Any:
    """What the template shows: texts without control characters; markup of the template itself as it is."""
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
_CODE = re.compile(r"`([^`]+)`")


def _prose(text: str) -> Markup:
    """A sentence: what stands in backticks is code, and a line does not end within the name of an option."""
    kept = _OPTION.sub(r'<span class="option">\g<0></span>', str(escape(clean(text))))
    return Markup(_CODE.sub(r"<code>\1</code>", kept))


def _bars(runs: Sequence[Run]) -> Iterator[tuple[Phase, list[tuple[str, float]]]]:
    """Phase; and of each run how long it takes in the mean, in words and in percent of the longest."""
    seen = [{part.phase: part for part in story.phases(run)} for run in runs]
    longest_s = max((part.mean_s or 0.0 for side in seen for part in side.values()), default=0.0)
    for phase in story.LETTERS:
        parts = [side.get(phase) for side in seen]
        if any(part is not None and part.mean_s is not None for part in parts):
            yield phase, [_bar(part, longest_s) for part in parts]


def _bar(part: story.PhasePart | None, longest_s: float) -> tuple[str, float]:
    if part is None or part.mean_s is None:
        return "-" if part is None else "not measured", 0.0
    return f"{duration(part.mean_s)} ({percent(part.share)})", story.percent_of(part.mean_s, longest_s)


def _environment(study: Study) -> list[tuple[str, str]]:
    """Where and with what the study was made: name and value; what is not known is left out."""
    run, machine = story.timed(study), study.machine
    budget = f" of {duration(study.budget_s)}" if outcome.is_tuned(study) else ""
    found = {
        "Command": story.script(study),
        "Folder": study.cwd,
        "Started": study.created,
        "Took": f"{duration(study.elapsed_s)}{budget}",
        "hotlap": study.hotlap,
    }
    if run is not None:
        names = {"python": "Python", "torch": "PyTorch"}
        found |= {names.get(name, name): version for name, version in run.versions.items()}
        found |= {
            "Device": run.device,
            "Threads": str(run.num_threads or ""),
            "Processes": str(run.world_size) if run.world_size > 1 else "",
            "Peak memory": size(run.rss_peak_bytes) if run.rss_peak_bytes else "",
            "Peak device memory": size(run.device_peak_bytes) if run.device_peak_bytes else "",
            "Cost of measuring": "" if run.probe_s is None else f"{duration(run.probe_s)} a step",
        }
    if machine is not None:
        found |= {
            "System": f"{machine.system}, {machine.libc}",
            "Processor": machine.processor,
            "Cores": f"{machine.usable_cores:g} usable of {machine.num_cores}",
            "Memory": f"{size(machine.available_bytes)} free of {size(machine.memory_bytes)}",
            "GPUs": ", ".join(machine.gpus) or "none",
        }
    return [(name, value) for name, value in found.items() if value]

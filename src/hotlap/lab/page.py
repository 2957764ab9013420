"""Result -> one self-contained HTML page in the clothes of the report: no script, no network, light and dark."""

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

import hotlap.report
from hotlap.lab import geometry, words
from hotlap.lab.result import Bars, Curves, Lanes, Picture, Result
from hotlap.report import lanes
from hotlap.report.clean import clean
from hotlap.units import duration, percent


def render(result: Result) -> str:
    """All of it."""
    return _template().render(result=result, pictures=[(_kind(one), one, _drawn(one)) for one in result.pictures])


def _kind(picture: Picture) -> str:
    return type(picture).__name__.lower()


def _drawn(picture: Picture) -> Any:
    """Geometry that the template draws; None where nothing can be drawn."""
    if isinstance(picture, Curves):
        return geometry.chart(picture)
    if isinstance(picture, Bars):
        return geometry.rows(picture)
    assert isinstance(picture, Lanes)
    return picture.timeline


@cache
def _template() -> Template:
    folders = [Path(__file__).parent, *map(Path, hotlap.report.__path__)]
    jinja = Environment(
        loader=FileSystemLoader(folders, encoding="utf-8"),
        autoescape=True,
        finalize=_cleaned,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    jinja.globals.update(words=words, letters=lanes.LETTERS, duration=duration, percent=percent)
    return jinja.get_template("lab.html.j2")


def _cleaned(value: Any) -> Any:
    """What the template shows: texts without control characters; markup of the template itself as it is."""
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value

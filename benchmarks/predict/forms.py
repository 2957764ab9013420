"""Forms of the model, each judged by sources that neither its constants nor its choice saw -> results/forms.json.

    PYTHONPATH=src python benchmarks/predict/forms.py

Errors are those of best guesses (no draws), by source. "chosen" is a form for each source that is held out: the one of
the least error between devices of the other sources.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import calibrate
import numpy as np
from calibrate import Table
from judge import GROUPS, SPLITS, Pair
from measurements import Point

from hotlap.predict import timing

RESULTS = Path(__file__).with_name("results") / "forms.json"
# What each sets, besides what stands in timing.py and calibrate.py.
FORMS: Mapping[str, Mapping[str, float]] = {
    "kept": {},
    "geometric mean of peaks alone": {"MODEL_WEIGHT": 0.0},
    "half of it": {"MODEL_WEIGHT": 0.5},
    "none of it": {"MODEL_WEIGHT": 1.0},
    "power of the board left out": {"JOULES_POWER": 0.0},
    "twice its weight": {"JOULES_POWER": 0.4},
    "products by the mean of peak and bandwidth": {"BALANCE_POWER": 0.5},
    "products by bandwidth more": {"BALANCE_POWER": 0.7},
    "pairs taken for independent": {"NUM_INDEPENDENT": 200.0},
    "constants not fitted": {"NUM_INDEPENDENT": 1e-6},
    "none of these": {"MODEL_WEIGHT": 1.0, "JOULES_POWER": 0.0, "NUM_INDEPENDENT": 200.0},
}
SHOWN = ("all", "FP32-only -> Ampere and later", "within Hopper", "batch that fills the memory of one")


@contextmanager
def form(settings: Mapping[str, float]) -> Iterator[None]:
    """The model with these settings."""
    homes = {name: timing if hasattr(timing, name) else calibrate for name in settings}
    before = {name: getattr(homes[name], name) for name in settings}
    for name, value in settings.items():
        setattr(homes[name], name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(homes[name], name, value)


def held_out(part: Callable[[Point], str], points: list[Point]) -> np.ndarray:
    """Error of each pair of `points`, with constants of the points of other parts than that of the device asked."""
    table = Table(points)
    found = np.empty(len(table.left))
    parts = np.array([part(points[row]) for row in table.right])
    for name in set(parts):
        values = calibrate.fitted([point for point in points if part(point) != name])
        found[parts == name] = table.errors(values)[parts == name]
    return found


def size(errors: np.ndarray) -> tuple[float, float]:
    """Median and 90th percentile."""
    return tuple(round(float(np.percentile(np.abs(errors), at)), 3) for at in (50, 90))  # type: ignore[return-value]


def main() -> None:
    points = calibrate.points()
    source = SPLITS["source"]
    by_form = {}
    for name, settings in FORMS.items():
        with form(settings):
            by_form[name] = held_out(source, points)
    table = Table(points)
    of_pair = np.array([source(points[row]) for row in table.right])
    chosen, choices = np.empty(len(table.left)), {}
    for name in sorted(set(of_pair)):
        inside = [point for point in points if source(point) != name]
        score = {}
        for one, settings in FORMS.items():
            with form(settings):
                score[one] = sum(size(held_out(SPLITS["device"], inside)))
        choices[name] = min(score, key=lambda one: score[one])
        chosen[of_pair == name] = by_form[choices[name]][of_pair == name]
    pairs = [
        Pair(here=points[a], there=points[b], error=0.0, plain=0.0, kind="", halves=(0.0, 0.0))
        for a, b in zip(table.left, table.right, strict=True)
    ]
    members = {group: np.array([GROUPS[group](pair) for pair in pairs]) for group in SHOWN}
    result = {
        name: {group: size(errors[rows]) for group, rows in members.items()}
        for name, errors in (by_form | {"chosen": chosen}).items()
    }
    RESULTS.write_text(json.dumps({"forms": result, "choices": choices}, indent=1) + "\n")
    print(RESULTS.read_text())


if __name__ == "__main__":
    main()

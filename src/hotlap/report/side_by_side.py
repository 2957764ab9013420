"""Comparison -> plain text for a terminal or a log."""

from collections.abc import Iterator

from hotlap.record import Change, Comparison, PhaseChange
from hotlap.report.clean import clean_line
from hotlap.units import duration, percent

# Phases whose change is below this part of the step are left out: nobody acts on them.
_LEAST_SHARE = 0.005


def text(comparison: Comparison) -> str:
    """All of it, in lines."""
    return "".join(f"{line}\n" for line in _lines(comparison))


def _lines(comparison: Comparison) -> Iterator[str]:
    yield f"{clean_line(comparison.base)} -> {clean_line(comparison.other)}"
    for difference in comparison.differences:
        yield f"  differs, and was allowed to: {clean_line(difference)}"
    yield (
        f"  step           {duration(comparison.base_step_s):>9} -> {duration(comparison.other_step_s):>9}  "
        f"{_change(comparison)}"
    )
    for change in comparison.phases:
        if _matters(change, comparison):
            yield f"  {_phase(change)}"
    for part in comparison.parts:
        if abs(part.other_s - part.base_s) >= _LEAST_SHARE * comparison.base_step_s:
            yield f"  {'on the device':<13}  {duration(part.base_s):>9} -> {duration(part.other_s):>9}  {part.name}"
    if comparison.ratio is not None and comparison.between_runs is None:
        yield "  The interval covers what varies within each run; how far one run differs from the next is not known."
    elif comparison.between_runs is not None:
        yield f"  From one run to the next the step differs by about {percent(comparison.between_runs)}; that is in it."
    yield verdict(comparison)


def _change(comparison: Comparison) -> str:
    ratio = comparison.ratio
    if ratio is None:
        change = f"{comparison.other_step_s / comparison.base_step_s - 1:+7.1%}" if comparison.base_step_s > 0 else ""
        return f"{change}  (too few steps to tell it from chance)"
    return f"{ratio.mid - 1:+7.1%}  (95% interval {ratio.low - 1:+.1%} to {ratio.high - 1:+.1%})"


def verdict(comparison: Comparison) -> str:
    """What it comes to, in one sentence."""
    if comparison.limit is None:
        faster = comparison.ratio is not None and comparison.ratio.high < 1
        return {
            Change.SLOWER: "Slower.",
            Change.WITHIN: "Faster." if faster else "Not slower.",
            Change.UNDECIDED: "Undecided: no change can be told from chance here.",
        }[comparison.change]
    limit = percent(comparison.limit)
    return {
        Change.SLOWER: f"Regression: the step is slower by more than {limit}.",
        Change.WITHIN: f"No regression: the step is not slower by more than {limit}.",
        Change.UNDECIDED: (
            f"Undecided: a step slower by more than {limit} can be neither shown nor ruled out. Measure more steps "
            "(--steps), or on a quieter machine."
        ),
    }[comparison.change]


def _matters(change: PhaseChange, comparison: Comparison) -> bool:
    return max(change.base_s or 0.0, change.other_s or 0.0) >= _LEAST_SHARE * comparison.base_step_s


def _phase(change: PhaseChange) -> str:
    base, other = (duration(one) if one is not None else "not known" for one in (change.base_s, change.other_s))
    line = f"{change.phase.value:<13}  {base:>9} -> {other:>9}"
    if change.difference_s is None:
        return line
    gap = change.difference_s
    sign = "+" if gap.mid >= 0 else ""
    clear = "" if gap.low > 0 or gap.high < 0 else "  not told from none"
    return f"{line}  {sign}{duration(gap.mid)}{clear}"

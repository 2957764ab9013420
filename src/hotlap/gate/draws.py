"""Where forward passes draw random numbers, and what they drop by them, beside the baseline's."""

from hotlap.gate.evidence import Pair
from hotlap.record import Run
from hotlap.units import percent, plural


def other_places(a: Run, b: Run) -> dict[str, str]:
    """Forward passes draw random numbers, or none, where in the baseline it is always the other way: a dropout that is
    lost, or left on. What the script draws elsewhere instead, in most of these steps, was moved."""
    found = {}
    both = Pair(a, b).of_both(lambda run: run.draws)
    for k, passes in enumerate(("with", "without")):
        known = [(step, mine, other) for step, mine, other in both if None not in (mine[k], other[k])]
        if len({mine[k] for _, mine, _ in known}) != 1:
            continue
        others = [one for one in known if one[1][k] != one[2][k]]
        alone = [step for step, mine, other in others if not _moved(mine, other, k)]
        if 2 * len(alone) > len(others):
            draw, did = ("draw no", "do") if known[0][1][k] else ("draw", "do not")
            found[passes] = (
                f"Forward passes {passes} gradients {draw} random numbers at step {alone[0]}; in the baseline they "
                f"{did}."
            )
    return found


def _moved(mine: tuple[bool | None, ...], other: tuple[bool | None, ...], k: int) -> bool:
    """Another place draws instead of k, or k instead of it."""
    return any(bool(x) != bool(y) == bool(mine[k]) for x, y in zip(mine, other, strict=True))


def other_dropouts(a: Run, b: Run) -> dict[str, str]:
    """Of several dropouts one is lost, or one is new. As many elements in other calls are the same ones in other parts;
    other elements in as many calls are padded otherwise. What draws otherwise may be one that is written by hand."""
    mine, other = ({drops: told for drops, *told in run.dropouts or ()} for run in (a, b))
    if not mine or not other or mine.get(None) != other.get(None):
        return {}
    for drops in filter(None, {**mine, **other}):
        (wanted_calls, wanted), (calls, found) = mine.get(drops, (0, 0)), other.get(drops, (0, 0))
        if wanted_calls != calls and wanted != found:
            return {
                str(drops): f"Forward passes of two steps drop {percent(drops)} of {found:,} elements in "
                f"{plural(calls, 'call')}; in the baseline of {wanted:,} in {plural(wanted_calls, 'call')}."
            }
    return {}

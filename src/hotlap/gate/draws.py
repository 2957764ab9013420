"""Where random numbers are drawn, how many, and what forward passes drop by them, beside the baseline's."""

from collections import Counter
from collections.abc import Sequence
from itertools import combinations

from hotlap.gate.evidence import Pair
from hotlap.record import GENERATORS, KEPT_STEPS, Run
from hotlap.units import percent, plural

# Part of the numbers of a distribution by which they may be fewer, beyond what they differ by from seed to seed.
_FEWER = 0.02

# Padding makes hardly so many times as many elements.
_PADDED = 2

Place = tuple[str, bool]
"""(distribution of random numbers, behind the first step)."""


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
    other elements in as many calls are padded otherwise, unless they are twice as many: each element of a channel is
    dropped by itself then. (Fewer: `fewer_numbers`.) What draws otherwise may be one that is written by hand."""
    mine, other = ({drops: told for drops, *told in run.dropouts or ()} for run in (a, b))
    if not mine or not other or mine.get(None) != other.get(None):
        return {}
    for drops in filter(None, {**mine, **other}):
        (wanted_calls, wanted), (calls, found) = mine.get(drops, (0, 0)), other.get(drops, (0, 0))
        if wanted != found and (wanted_calls != calls or found > _PADDED * wanted):
            return {
                str(drops): f"Forward passes of two steps drop {percent(drops)} of {found:,} elements in "
                f"{plural(calls, 'call')}; in the baseline of {wanted:,} in {plural(wanted_calls, 'call')}."
            }
    return {}


def dropped(run: Run) -> int:
    """Elements that forward passes of the first two steps would drop some of, and keep all of there."""
    return sum(number for drops, _, number in run.dropouts or () if drops)


def fewer_numbers(pairs: Sequence[Pair]) -> str | None:
    """The sentence, where fewer random numbers are drawn, and no others in their place. They may not have been needed;
    or some come again, or serve several samples. Neither what data look like nor a loss need tell (noise from a pool
    that is added by hand, a flip that is the same for a whole batch, pairs that are made once)."""
    if not pairs or not all(map(_sees_as_much, pairs)):
        return None
    known = [_numbers(pair) for pair in pairs]
    mine, other = (sum((both[side] for both in known), Counter[Place]()) for side in (0, 1))
    usual = Counter[Place]()
    for a, b in combinations((base for base, _ in known), 2):
        usual |= Counter({one: abs(a[one] - b[one]) * len(known) for one in a | b})
    gaps = {one: mine[one] - other[one] for one in mine | other}
    if any(gap for (kind, _), gap in gaps.items() if kind == GENERATORS):  # what these draw is not seen
        return None
    lost = {one: gap for one, gap in gaps.items() if one[1] and gap > _FEWER * mine[one] + usual[one]}
    if sum(lost.values()) <= -sum(gap for gap in gaps.values() if gap < 0):
        return None
    place = max(lost, key=lambda one: lost[one] / mine[one])
    share = f"{other[place] / mine[place]:.0%} as many random numbers ({place[0]})"
    return (
        f"{share} are drawn as in the baseline, and no others in their place: whether the rest was not needed, or some "
        "come again or serve several samples, is not known."
    )


def _numbers(pair: Pair) -> tuple[Counter[Place], Counter[Place]]:
    """How many of each distribution, in the steps that both recorded; those up to the first one by themselves."""
    mine, other = Counter[Place](), Counter[Place]()
    for step, a, b in pair.of_both(lambda run: run.drawn):
        for found, one in ((mine, a), (other, b)):
            found.update({(kind, step > 0): number for kind, number in one.items()})
    # As many numbers are padded alike: a mask that is drawn for channels, or once for all samples, has fewer.
    if all(a == b for _, a, b in pair.of_both(lambda run: run.given)[:KEPT_STEPS]):
        mine["dropouts", True], other["dropouts", True] = dropped(pair.base), dropped(pair.lever)
    return mine, other


def _sees_as_much(pair: Pair) -> bool:
    """Neither workers of a loader, compiled or captured code nor dropouts draw unseen what is seen in the baseline."""
    both = [(run.compiled, any(one.num_workers for one in run.loaders)) for run in (pair.base, pair.lever)]
    given = pair.of_both(lambda run: run.given)
    return (
        both[0] == both[1]
        and dropped(pair.lever) <= dropped(pair.base)
        and all(other for _, mine, other in given if mine)
    )

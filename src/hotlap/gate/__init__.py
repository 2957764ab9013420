"""The gate: is training unharmed by a lever, held to what the lever itself promises about the numbers?

NaN, no loss, too little evidence: never UNHARMED. What was compared, and what was not, is said in `Ruling.why`.
"""

from hotlap.gate import exact, invariants, ranks, rounding, statistical
from hotlap.gate.evidence import Evidence, Pair, Ruling, other_than, saw_epoch_end, undecided, unharmed
from hotlap.gate.invariants import RANDOM_STATE

__all__ = ["Evidence", "Ruling", "judge", "saw_epoch_end"]

CONTRACTS = ("exact", "rounding", "statistical")


def judge(numerics: str, evidence: Evidence) -> Ruling:
    """Hold a lever to its contract: `numerics` is "exact", "rounding" or "statistical" (values of levers.Numerics).

    What holds for all contracts comes first: finite losses, the same number of updates, learning rates, samples,
    settings, epochs, and updates of the same size that reach the same parameters. Of processes that train together
    each is held to all that. (Under "statistical" the losses of the first rank alone: they train one model.)
    """
    if numerics not in CONTRACTS:
        raise ValueError(f"the gate has no contract {numerics!r}; it has {', '.join(CONTRACTS)}")
    unknown = ranks.missing(evidence)
    if unknown is not None:
        return unknown
    first, *others = (one.in_one_order() for one in ranks.of_each(evidence))
    if not others:
        return _judge(numerics, first)
    held_to = _bookkeeping if numerics == "statistical" else _judge
    of_others = [held_to(numerics, one) or unharmed("") for one in others]
    return ranks.joined([_judge(numerics, first), *of_others], evidence)


def _judge(numerics: str, evidence: Evidence) -> Ruling:
    """Of one process."""
    return _bookkeeping(numerics, evidence) or _by_contract(numerics, evidence, _pairs(numerics, evidence))


def _bookkeeping(numerics: str, evidence: Evidence) -> Ruling | None:
    """What holds for all contracts."""
    pairs = _pairs(numerics, evidence)
    return (
        invariants.not_finite(evidence, pairs)
        or invariants.unusable(evidence, pairs)
        or invariants.missing(numerics, pairs)
        or invariants.broken(numerics, evidence, pairs)
    )


def _pairs(numerics: str, evidence: Evidence) -> tuple[Pair, ...]:
    return evidence.seed_pairs() if numerics == "statistical" else evidence.same_seed_pairs()


def _by_contract(numerics: str, evidence: Evidence, pairs: tuple[Pair, ...]) -> Ruling:
    if numerics == "statistical":
        return statistical.judge(pairs)
    num_witnesses = len(evidence.base) + (len(evidence.perturbed) if numerics == "rounding" else 0)
    if num_witnesses < 2 and not exact.bit_equal(pairs):
        return undecided("Numbers differ, and one baseline run does not tell whether the script repeats itself.")
    cause = exact.why_not_repeatable(evidence)
    if cause is not None and (numerics == "exact" or not exact.same_samples(evidence)):
        return _without_repeatability(cause, evidence, pairs)
    return exact.judge(evidence, pairs) if numerics == "exact" else rounding.judge(evidence, pairs)


def _without_repeatability(cause: str, evidence: Evidence, pairs: tuple[Pair, ...]) -> Ruling:
    """Two plain runs differ, so bits prove nothing: the strongest contract for which there is evidence takes over."""
    prefix = f"Two runs of the baseline differ first in {cause}, so bits cannot be compared. "
    if exact.same_samples(evidence):
        ruling = other_than(pairs, (), RANDOM_STATE.differing) or _judge("rounding", evidence)
    elif evidence.base_seeds and evidence.lever_seeds:
        ruling = _judge("statistical", evidence)
    else:
        ruling = undecided("It takes runs with other seeds on both sides to tell harm from chance.")
    return Ruling(verdict=ruling.verdict, why=prefix + ruling.why)

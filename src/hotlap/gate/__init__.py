"""The gate: is training unharmed by a lever, held to what the lever itself promises about the numbers?

EXACT is judged here: losses, batches, random states, all that could be saved and what is printed, equal bit for bit.
NaN, no loss, too little evidence: never UNHARMED. What was compared, and what was not, is said in `Ruling.why`.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from hotlap.gate import comparable, invariants, prints, ranks, rounding, saved, statistical
from hotlap.gate.evidence import Evidence, Pair, Ruling, extent, other_than, saw_epoch_end, undecided, unharmed
from hotlap.gate.scale import in_one_scale
from hotlap.gate.step_fields import BATCH, RANDOM_STATE, StepField
from hotlap.record import Run, Verdict

__all__ = ["Evidence", "Ruling", "judge", "saw_epoch_end"]

CONTRACTS = ("exact", "rounding", "statistical")

LOSS = StepField("loss", lambda run: run.loss, article="another")
# At one step, the cause before its consequence.
BITS = (RANDOM_STATE, BATCH, LOSS)


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
    held_to = _bookkeeping if numerics == "statistical" else _judge
    of_others = [held_to(numerics, one) or unharmed("") for one in others]
    ruling = ranks.joined([_judge(numerics, first), *of_others], evidence)
    if ruling.verdict is not Verdict.UNHARMED:
        return ruling
    return replace(ruling, why=f"{ruling.why}{saved.not_compared(_pairs(numerics, first))}")


def _judge(numerics: str, evidence: Evidence) -> Ruling:
    """Of one process."""
    evidence, times = in_one_scale(evidence)
    ruling = _bookkeeping(numerics, evidence) or _by_contract(numerics, evidence, _pairs(numerics, evidence))
    if times == 1:
        return ruling
    scaled = f"What backward passes start from is {times:.6g} times that of the baseline"
    return replace(ruling, why=f"{ruling.why} {scaled}; all compared updates are bit-equal.")


def _bookkeeping(numerics: str, evidence: Evidence) -> Ruling | None:
    """What holds for all contracts."""
    pairs = _pairs(numerics, evidence)
    return (
        invariants.not_finite(evidence)
        or comparable.unusable(evidence, pairs)
        or comparable.missing(numerics, pairs)
        or comparable.cut_otherwise(pairs)
        or invariants.broken(numerics, evidence, pairs)
    )


def _pairs(numerics: str, evidence: Evidence) -> tuple[Pair, ...]:
    return evidence.seed_pairs() if numerics == "statistical" else evidence.same_seed_pairs()


def _by_contract(numerics: str, evidence: Evidence, pairs: tuple[Pair, ...]) -> Ruling:
    if numerics == "statistical":
        return statistical.judge(evidence, pairs)
    num_witnesses = len(evidence.base) + (len(evidence.perturbed) if numerics == "rounding" else 0)
    if num_witnesses < 2 and any(differing(pair.base, pair.lever) for differing in _ALL for pair in pairs):
        return undecided("Numbers differ, and one baseline run does not tell whether the script repeats itself.")
    # What differs first between two baseline runs with one seed: "the loss (step 3)".
    cause = next((key for a, b in combinations(evidence.base, 2) for key in _other_steps(a, b)), None)
    if cause is not None and (numerics == "exact" or not _same_samples(evidence)):
        return _without_repeatability(cause, evidence, pairs)
    return _exact(evidence, pairs) if numerics == "exact" else rounding.judge(evidence, pairs)


def _without_repeatability(cause: str, evidence: Evidence, pairs: tuple[Pair, ...]) -> Ruling:
    """Two plain runs differ, so bits prove nothing: the strongest contract for which there is evidence takes over."""
    prefix = f"Two runs of the baseline differ first in {cause}, so bits cannot be compared. "
    if _same_samples(evidence):
        ruling = other_than(pairs, (), RANDOM_STATE.differing) or _judge("rounding", evidence)
    elif evidence.base_seeds and evidence.lever_seeds:
        ruling = _judge("statistical", evidence)
    else:
        ruling = undecided("It takes runs with other seeds on both sides to tell harm from chance.")
    return Ruling(verdict=ruling.verdict, why=prefix + ruling.why)


def _exact(evidence: Evidence, pairs: Sequence[Pair]) -> Ruling:
    """Compare bits, of a script that repeats itself."""
    if not all(pair.base.rng_digest and pair.lever.rng_digest for pair in pairs):
        return undecided("Random states were not recorded, so it is not proved that they stay as they are.")
    sure = extent(min(len(pair.steps()) for pair in pairs), [pair.lever for pair in pairs])
    other = (other_than(pairs, evidence.base, differing) for differing in _ALL)
    if any(BATCH.first(pair.base, pair.lever) for pair in pairs):
        equal = f"Losses, updates and random states are bit-equal over {sure}; batches are the same in another form."
    else:
        equal = f"Losses, batches and random states are bit-equal over {sure}."
    return next(filter(None, other), unharmed(equal))


def _same_samples(evidence: Evidence) -> bool:
    """True if the baseline runs with one seed draw the same batches and random numbers: only losses differ."""
    return not any(field.first(a, b) for a, b in combinations(evidence.base, 2) for field in (RANDOM_STATE, BATCH))


def _other_steps(a: Run, b: Run) -> dict[str, str]:
    """The earliest difference of any kind, as "the loss (step 3)"."""
    fields = (field for field in BITS if not (field is BATCH and invariants.in_another_form(a, b)))
    found = [(*first, field.name) for field in fields if (first := field.first(a, b)) is not None]
    if not found:
        return {}
    step, why, name = min(found, key=lambda one: one[0])
    return {f"the {name} (step {step})": why}


_ALL = (_other_steps, saved.other_content, prints.other_text)

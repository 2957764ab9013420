"""EXACT: losses, batches, random states, all that could be saved and what is printed, equal bit for bit."""

from collections.abc import Sequence
from itertools import combinations

from hotlap.gate import prints
from hotlap.gate.evidence import Evidence, Pair, Ruling, extent, other_than, undecided, unharmed
from hotlap.gate.invariants import BATCH, RANDOM_STATE, StepField, other_content
from hotlap.record import Run

LOSS = StepField("loss", lambda run: run.loss, article="another")
# At one step, the cause before its consequence.
BITS = (RANDOM_STATE, BATCH, LOSS)


def judge(evidence: Evidence, pairs: Sequence[Pair]) -> Ruling:
    """Compare bits; `why_not_repeatable` has found that they can be compared."""
    if not all(pair.base.rng_digest and pair.lever.rng_digest for pair in pairs):
        return undecided("Random states were not recorded, so it is not proved that they stay as they are.")
    sure = extent(min(len(pair.steps()) for pair in pairs), [pair.lever for pair in pairs])
    other = (other_than(pairs, evidence.base, differing) for differing in _ALL)
    equal = unharmed(f"Losses, batches and random states are bit-equal over {sure}.")
    return next(filter(None, other), equal)


def bit_equal(pairs: Sequence[Pair]) -> bool:
    """True if nothing that was recorded differs in any pair."""
    return not any(differing(pair.base, pair.lever) for differing in _ALL for pair in pairs)


def why_not_repeatable(evidence: Evidence) -> str | None:
    """What differs first between two baseline runs with one seed ("the loss (step 3)"); None if nothing does."""
    return next((key for a, b in combinations(evidence.base, 2) for key in other_steps(a, b)), None)


def same_samples(evidence: Evidence) -> bool:
    """True if the baseline runs with one seed draw the same batches and random numbers: only losses differ."""
    return not any(field.first(a, b) for a, b in combinations(evidence.base, 2) for field in (RANDOM_STATE, BATCH))


def other_steps(a: Run, b: Run) -> dict[str, str]:
    """The earliest difference of any kind, as "the loss (step 3)"."""
    found = [(*first, field.name) for field in BITS if (first := field.first(a, b)) is not None]
    if not found:
        return {}
    step, why, name = min(found, key=lambda one: one[0])
    return {f"the {name} (step {step})": why}


_ALL = (other_steps, other_content, prints.other_text)

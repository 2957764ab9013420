"""EXACT: losses, batches, random states, all that could be saved and what is printed, equal bit for bit."""

from collections.abc import Sequence
from itertools import combinations

from hotlap.gate import prints, states
from hotlap.gate.evidence import Evidence, Pair, Ruling, extent, harmed, other_than, undecided, unharmed
from hotlap.gate.invariants import BATCH, RANDOM_STATE, StepField, first_difference
from hotlap.record import Run

LOSS = StepField("loss", lambda run: run.loss)
# At one step, the cause before its consequence.
BITS = (RANDOM_STATE, BATCH, LOSS)


def judge(evidence: Evidence, pairs: Sequence[Pair]) -> Ruling:
    """Compare bits; `why_not_repeatable` has found that they can be compared."""
    if not all(pair.base.rng_digest and pair.lever.rng_digest for pair in pairs):
        return undecided("Random states were not recorded, so it is not proved that they stay as they are.")
    for differing in _ALL:
        ruling = other_than(pairs, evidence.base, differing)
        if ruling:
            return ruling
    num_steps = min(len(pair.steps()) for pair in pairs)
    sure = extent(num_steps, [pair.lever for pair in pairs])
    return unharmed(f"Losses, batches and random states are bit-equal over {sure}.")


def bit_equal(pairs: Sequence[Pair]) -> bool:
    """True if nothing that was recorded differs in any pair."""
    return not any(differing(pair.base, pair.lever) for differing in _ALL for pair in pairs)


def why_not_repeatable(evidence: Evidence) -> str | None:
    """What differs first between two baseline runs with one seed ("the loss (step 3)"); None if nothing does."""
    return next((key for a, b in combinations(evidence.base, 2) for key in other_steps(a, b)), None)


def same_samples(evidence: Evidence) -> bool:
    """True if the baseline runs with one seed draw the same batches and random numbers: only losses differ."""
    return all(
        first_difference(field, a, b) is None
        for a, b in combinations(evidence.base, 2)
        for field in (RANDOM_STATE, BATCH)
    )


def other_random_state(pairs: Sequence[Pair]) -> Ruling | None:
    """HARMED where random states differ: they can be equal even where losses are not repeatable."""
    for pair in pairs:
        found = first_difference(RANDOM_STATE, pair.base, pair.lever)
        if found:
            return harmed(f"Step {found[0]} has another random state than the baseline.")
    return None


def other_steps(a: Run, b: Run) -> dict[str, str]:
    """The earliest difference of any kind, as "the loss (step 3)"."""
    found = [(field, difference) for field in BITS if (difference := first_difference(field, a, b)) is not None]
    if not found:
        return {}
    field, (step, mine, other) = min(found, key=lambda item: item[1][0])
    why = f"Step {step} has another {field.name} than the baseline: {other} instead of {mine}."
    return {f"the {field.name} (step {step})": why}


_ALL = (other_steps, states.other_content, prints.other_text)

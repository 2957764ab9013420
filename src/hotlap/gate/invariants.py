"""What holds under every contract: finite losses, and the same updates, rates, samples, settings and epochs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

from hotlap.gate import states, updates
from hotlap.gate.evidence import MIN_STEPS, Evidence, Pair, Ruling, harmed, is_finite, other_than, undecided
from hotlap.record import Number, Run, Status

# A learning rate that a lever keeps as a float32 tensor differs from the script's by 6e-8 of itself.
RATE_TOLERANCE = 1e-6
# A script whose own losses are not finite in more of its steps has nothing that could be harmed further.
MAX_NOT_FINITE = 0.1
# Batches that come again, as a share of the steps, beyond what any baseline run shows. One alone may be chance
# (the last batch of an epoch may have one item); a loader that hands out stale batches does it all the time.
MAX_REPEATED = 0.02
FAILED = (Status.CRASHED, Status.KILLED, Status.HUNG, Status.SILENT)


@dataclass(frozen=True, slots=True)
class StepField:
    """Something recorded at each step, which must be the same with and without the lever."""

    name: str
    """As the sentence "step 7 has <name> 1, in the baseline 2" needs it."""
    values: Callable[[Run], Sequence[object] | None]
    contracts: tuple[str, ...] = ("exact", "rounding", "statistical")
    """Where it is compared and, unless there is no optimizer, required."""
    of_optimizer: bool = False
    """A script without an optimizer has none of it."""


def _epoch_flags(run: Run) -> tuple[bool, ...]:
    starts = set(run.epoch_starts)
    return tuple(i in starts for i in range(len(run.step_index)))


FIELDS = (
    StepField("updates", lambda run: run.num_updates or None),
    StepField("learning rates", lambda run: run.learning_rates, of_optimizer=True),
    StepField("samples", lambda run: run.num_samples or None),
    StepField("optimizer settings", lambda run: run.settings_digest, of_optimizer=True),
    StepField("starts of a loader", _epoch_flags),
    StepField("batch", lambda run: run.batch_digest, contracts=("exact", "rounding")),
)
BATCH = FIELDS[-1]
RANDOM_STATE = StepField("random state", lambda run: run.rng_digest)


def not_finite(evidence: Evidence, pairs: Sequence[Pair]) -> Ruling | None:
    """HARMED where a loss is not finite although it is in the baseline."""
    for pair in pairs:
        baseline_at = dict(zip(pair.base.step_index, pair.base.loss, strict=False))
        for step, loss in _not_finite_losses(pair.lever):
            baseline = baseline_at.get(step)
            if baseline is not None and is_finite(baseline):
                return harmed(f"The loss at step {step} is {loss}; in the baseline it is {baseline}.")
    if any(_not_finite_losses(run) for run in evidence.baseline()):
        return None
    for run in evidence.with_lever():
        for step, loss in _not_finite_losses(run):
            return harmed(f"The loss at step {step} is {loss}; in the baseline no loss is.")
    return None


def unusable(evidence: Evidence, pairs: Sequence[Pair]) -> Ruling | None:
    """UNDECIDED where there is too little to look at: failed runs, no losses, too few common steps."""
    if not evidence.lever:
        return undecided("There is no run with the lever.")
    if not evidence.base:
        return undecided("There is no baseline run.")
    for side, runs in (("of the baseline", evidence.baseline()), ("with the lever", evidence.with_lever())):
        reason = next((reason for run in runs if (reason := _why_unusable(run))), None)
        if reason:
            return undecided(f"A run {side} {reason}.")
    if not pairs or any(pair.base.seed != pair.lever.seed for pair in pairs):
        return undecided("No run with the lever has the seed of a baseline run.")
    num_common = min(_num_common_losses(pair) for pair in pairs)
    if num_common < MIN_STEPS:
        return undecided(f"Only {num_common} steps have a loss on both sides; it takes {MIN_STEPS} to judge.")
    return None


def missing(numerics: str, pairs: Sequence[Pair]) -> Ruling | None:
    """UNDECIDED where something that the contract compares was not recorded."""
    for pair in pairs:
        optimized = any(pair.base.num_updates) or bool(pair.base.optimizers)
        for field in FIELDS:
            wanted = numerics in field.contracts and (optimized or not field.of_optimizer)
            if wanted and not (_complete(field, pair.base) and _complete(field, pair.lever)):
                return undecided(f"It was not recorded which {field.name} the steps had, so nothing is proved.")
        if any(pair.base.num_updates) and not (pair.base.updates and pair.lever.updates):
            return undecided("It was not recorded what the updates did to the parameters, so nothing is proved.")
    return None


def broken(numerics: str, evidence: Evidence, pairs: Sequence[Pair]) -> Ruling | None:
    """HARMED where the bookkeeping of the training is another than the baseline's."""
    for pair in pairs:
        for field in FIELDS:
            if numerics in field.contracts and _settled(field, evidence):
                ruling = _differing(field, pair)
                if ruling:
                    return ruling
        ruling = _lost_losses(pair) or _other_end(evidence, pair) or _other_skips(evidence, pair)
        if ruling:
            return ruling
        if numerics == "statistical":
            ruling = _other_data(evidence, pair)
            if ruling:
                return ruling
    return (
        _stale_batches(evidence)
        or updates.harm(evidence, pairs)
        or other_than(pairs, evidence.baseline(), states.other_counts)
    )


def first_difference(field: StepField, a: Run, b: Run) -> tuple[int, object, object] | None:
    """(step, value in a, value in b) where two runs first differ in `field`."""
    mine, others = field.values(a), field.values(b)
    if mine is None or others is None or (mine == others and a.step_index == b.step_index):
        return None
    for step, i, j in Pair(a, b).steps():
        if not _same(mine[i], others[j]):
            return step, mine[i], others[j]
    return None


def _settled(field: StepField, evidence: Evidence) -> bool:
    """True if the baseline runs agree among themselves, so that a difference must come from the lever.

    Learning rates that react to the loss, or batches of varying size, differ from seed to seed. One run alone does not
    tell whether a seed fixes the batches.
    """
    same_seed = (*evidence.base, *evidence.perturbed)
    runs = same_seed if field.name == "batch" else evidence.baseline()
    if field.name == "batch" and len(runs) < 2:
        return False
    return all(first_difference(field, a, b) is None for a, b in combinations(runs, 2))


def _differing(field: StepField, pair: Pair) -> Ruling | None:
    found = first_difference(field, pair.base, pair.lever)
    if found is None:
        return None
    step, baseline, value = found
    return harmed(
        f"Step {step} has other {field.name} than the baseline: {_short(value)} instead of {_short(baseline)}."
    )


def _other_data(evidence: Evidence, pair: Pair) -> Ruling | None:
    """Other batches although nothing was drawn that is not drawn in the baseline: not chance, but other data."""
    if not _settled(BATCH, evidence) or not (pair.base.rng_digest and pair.lever.rng_digest):
        return None
    if first_difference(RANDOM_STATE, pair.base, pair.lever) is not None:
        return None
    found = first_difference(BATCH, pair.base, pair.lever)
    if found is None:
        return None
    return harmed(f"Step {found[0]} trains on another batch than the baseline, and the random numbers are the same.")


def _lost_losses(pair: Pair) -> Ruling | None:
    """A step without a backward pass that has one in the baseline, or the other way round."""
    for step, i, j in pair.steps():
        if (pair.base.loss[i] is None) != (pair.lever.loss[j] is None):
            which = (
                "no loss, in the baseline it has one"
                if pair.lever.loss[j] is None
                else "a loss, in the baseline it has none"
            )
            return harmed(f"Step {step} has {which}.")
    return None


def _other_end(evidence: Evidence, pair: Pair) -> Ruling | None:
    """The script came to its own end earlier or later than the baseline."""
    ends = {run.step_index[-1] for run in evidence.baseline() if run.status is Status.ENDED}
    base_last, lever_last = pair.base.step_index[-1], pair.lever.step_index[-1]
    early = pair.lever.status is Status.ENDED and lever_last < base_last and lever_last not in ends
    late = pair.base.status is Status.ENDED and lever_last > base_last and len(ends) == 1
    if not (early or late):
        return None
    return harmed(f"The training came to step {lever_last}; in the baseline to step {base_last}.")


def _other_skips(evidence: Evidence, pair: Pair) -> Ruling | None:
    """A GradScaler left out another number of updates."""
    known = {run.skipped_updates for run in evidence.baseline() if run.step_index == pair.lever.step_index}
    skipped = pair.lever.skipped_updates
    if not known or skipped in known or len(known) > 1:
        return None
    return harmed(f"{skipped} updates were skipped because gradients overflowed; in the baseline {known.pop()}.")


def _stale_batches(evidence: Evidence) -> Ruling | None:
    """Batches come again that do not come again in the baseline."""
    usual = max(_share_repeated(run) for run in evidence.baseline())
    most = max(_share_repeated(run) for run in evidence.with_lever())
    if most <= usual + MAX_REPEATED:
        return None
    return harmed(f"{most:.0%} of the steps train on a batch that came before; in the baseline {usual:.0%}.")


def _share_repeated(run: Run) -> float:
    digests = [digest for digest in run.batch_digest or () if digest is not None]
    return 1 - len(set(digests)) / len(digests) if digests else 0.0


def _why_unusable(run: Run) -> str | None:
    num_steps = len(run.step_index)
    reasons = (
        (run.status in FAILED, f"{run.status.value}: {run.error or 'no reason recorded'}".rstrip(".")),
        (bool(run.not_installed), f"could not install it: {'; '.join(run.not_installed)}".rstrip(".")),
        (num_steps == 0, "made no step"),
        (all(loss is None for loss in run.loss), "shows no loss"),
        (len(run.loss) != num_steps, f"has {num_steps} steps but {len(run.loss)} losses"),
        (_share_not_finite(run) > MAX_NOT_FINITE, "has losses that are not finite: nothing to compare"),
    )
    return next((reason for applies, reason in reasons if applies), None)


def _not_finite_losses(run: Run) -> list[tuple[int, Number]]:
    losses = zip(run.step_index, run.loss, strict=False)
    return [(step, loss) for step, loss in losses if loss is not None and not is_finite(loss)]


def _num_common_losses(pair: Pair) -> int:
    return sum(is_finite(pair.base.loss[i]) and is_finite(pair.lever.loss[j]) for _, i, j in pair.steps())


def _share_not_finite(run: Run) -> float:
    return len(_not_finite_losses(run)) / max(1, len(run.loss))


def _complete(field: StepField, run: Run) -> bool:
    """True if the field was recorded at each step (batches: at some; a step may draw none)."""
    values = field.values(run)
    if values is None or len(values) != len(run.step_index):
        return False
    return field.name != "batch" or any(value is not None for value in values)


def _same(a: object, b: object) -> bool:
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(
            abs(x - y) <= RATE_TOLERANCE * max(abs(x), abs(y)) for x, y in zip(a, b, strict=True)
        )
    return a == b


def _short(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(f"{x:g}" for x in value)
    return value[:12] if isinstance(value, str) else str(value)

"""What holds under every contract: finite losses, and the same updates, rates, samples, settings and epochs."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hotlap.gate import updates
from hotlap.gate.evidence import MIN_STEPS, Differing, Evidence, Pair, Ruling, harmed, is_finite, other_than, undecided
from hotlap.record import Number, Run, StateDigest, Status

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
    values: Callable[[Run], Sequence[object] | None]
    of_optimizer: bool = False
    """A script without an optimizer has none of it."""
    article: str = "other"
    """With the name it makes "step 7 has another loss than the baseline"."""

    def first(self, a: Run, b: Run) -> tuple[int, str] | None:
        """The first step at which two runs differ in it, and the sentence that tells of it."""
        mine, others = self.values(a), self.values(b)
        if mine is None or others is None or (mine == others and a.step_index == b.step_index):
            return None
        for step, i, j in Pair(a, b).steps():
            if not _same(mine[i], others[j]):
                what = f"{self.article} {self.name} than the baseline: {_short(others[j])} instead of {_short(mine[i])}"
                return step, f"Step {step} has {what}."
        return None

    def differing(self, a: Run, b: Run) -> dict[str, str]:
        """As `Differing`."""
        found = self.first(a, b)
        return {} if found is None else {self.name: found[1]}


def _epoch_flags(run: Run) -> tuple[bool, ...]:
    starts = set(run.epoch_starts)
    return tuple(i in starts for i in range(len(run.step_index)))


FIELDS = (
    StepField("updates", lambda run: run.num_updates or None),
    StepField("learning rates", lambda run: run.learning_rates, of_optimizer=True),
    StepField("samples", lambda run: run.num_samples or None),
    StepField("optimizer settings", lambda run: run.settings_digest, of_optimizer=True),
    StepField("starts of a loader", _epoch_flags),
    StepField("losses", lambda run: tuple("none" if loss is None else "one" for loss in run.loss)),
)
BATCH = StepField("batch", lambda run: run.batch_digest, article="another")
"""Of another seed it is another one."""
RANDOM_STATE = StepField("random state", lambda run: run.rng_digest, article="another")


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
        fields = [field for field in FIELDS if optimized or not field.of_optimizer]
        for field in fields if numerics == "statistical" else (*fields, BATCH):
            if not (_complete(field, pair.base) and _complete(field, pair.lever)):
                return undecided(f"It was not recorded which {field.name} the steps had, so nothing is proved.")
        if any(pair.base.num_updates) and not (pair.base.updates and pair.lever.updates):
            return undecided("It was not recorded what the updates did to the parameters, so nothing is proved.")
    return None


def broken(numerics: str, evidence: Evidence, pairs: Sequence[Pair]) -> Ruling | None:
    """HARMED where the bookkeeping of the training is another than the baseline's.

    What baseline runs differ in among themselves is not the lever's: learning rates that react to the loss, or batches
    of varying size, are others from seed to seed. One run alone does not tell whether a seed fixes the batches.
    """
    baseline, same_seed = evidence.baseline(), (*evidence.base, *evidence.perturbed)
    batches = _other_data if numerics == "statistical" else BATCH.differing
    checks: tuple[tuple[Sequence[Run], Differing], ...] = (
        *((baseline, field.differing) for field in FIELDS),
        *([(same_seed, batches)] if len(same_seed) > 1 else []),
        (baseline, _other_end),
        (baseline, _other_skips),
    )
    return (
        next((ruling for runs, differing in checks if (ruling := other_than(pairs, runs, differing))), None)
        or _stale_batches(evidence)
        or updates.harm(evidence, pairs)
        or other_than(pairs, baseline, other_counts)
    )


def _other_data(a: Run, b: Run) -> dict[str, str]:
    """Other batches although nothing was drawn that is not drawn in the baseline: not chance, but other data."""
    found = BATCH.first(a, b)
    if found is None or not (a.rng_digest and b.rng_digest) or RANDOM_STATE.first(a, b) is not None:
        return {}
    return {"": f"Step {found[0]} trains on another batch than the baseline, and the random numbers are the same."}


def _other_end(a: Run, b: Run) -> dict[int, str]:
    """The script came to its own end earlier in one of them."""
    first = min(a, b, key=lambda run: run.step_index[-1])
    mine, other = a.step_index[-1], b.step_index[-1]
    if mine == other or first.status is not Status.ENDED:
        return {}
    return {first.step_index[-1]: f"The training came to step {other}; in the baseline to step {mine}."}


def _other_skips(a: Run, b: Run) -> dict[str, str]:
    """A GradScaler left out another number of updates in as many steps."""
    mine, other = a.skipped_updates, b.skipped_updates
    if mine == other or a.step_index != b.step_index:
        return {}
    return {"": f"{other} updates were skipped because gradients overflowed; in the baseline {mine}."}


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
        (bool(run.unreached), f"did not run the edit of {' and '.join(run.unreached)}"),
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


# What could be saved with the training: modules, optimizers, schedulers, averages.

StateKey = tuple[int, str]
"""(step, name of the class)."""


def other_content(a: Run, b: Run) -> dict[StateKey, str]:
    """Where anything differs."""
    return _told(other_states(a, b, lambda state: state.digest), "content")


def other_counts(a: Run, b: Run) -> dict[StateKey, str]:
    """Where integers, truth values or texts differ, which no rounding changes."""
    return _told(other_states(a, b, lambda state: state.counts), "counters")


def _told(keys: list[StateKey], what: str) -> dict[StateKey, str]:
    return {(step, name): f"{name} has other {what} than the baseline after step {step}." for step, name in keys}


def other_states(a: Run, b: Run, value: Callable[[StateDigest], str]) -> list[StateKey]:
    """Objects of one class are compared as a set, and only where there are as many: a lever may add some of its own."""
    mine, other = _by_key(a, value), _by_key(b, value)
    return [key for key in mine if len(mine[key]) == len(other.get(key, ())) and mine[key] != other[key]]


def _by_key(run: Run, value: Callable[[StateDigest], str]) -> dict[StateKey, list[str]]:
    found: dict[StateKey, list[str]] = defaultdict(list)
    for state in run.states or ():
        found[state.step, state.name].append(value(state))
    return {key: sorted(values) for key, values in found.items()}

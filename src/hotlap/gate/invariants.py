"""What holds under every contract: finite losses, and the same updates, rates, samples, settings and epochs."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from statistics import median_low

import numpy as np

from hotlap.gate import content, draws, gradients, saved, updates
from hotlap.gate.evidence import (
    MIN_STEPS,
    Differing,
    Evidence,
    Pair,
    Ruling,
    harmed,
    not_finite_losses,
    other_than,
)
from hotlap.gate.rounding import FLOAT32_ULP, FLOOR_ULPS
from hotlap.gate.step_fields import BATCH, FIELDS, FORGETFUL, RANDOM_STATE, RATES, SAMPLES, SOURCES, has_optimizer
from hotlap.record import Run, Status, as_float
from hotlap.units import plural

# What comes again, as a share of all so far, beyond what baseline runs differ by: one in fifty.
MAX_REPEATED = 0.02
# Of a model's inputs, those that are looked at one by one.
MAX_INPUTS = 4
# Data that are kept as float16 leave a first loss to some hundred-thousandths; other samples do not.
SAME_FIRST_LOSS = 1e-4


def not_finite(evidence: Evidence) -> Ruling | None:
    """HARMED where a loss is not finite, and in no run of the baseline at that step."""
    usual = {step for run in evidence.baseline() for step, _ in not_finite_losses(run)}
    found = (one for run in evidence.with_lever() for one in not_finite_losses(run) if one[0] not in usual)
    return next(
        (harmed(f"The loss at step {step} is {loss}; in the baseline it is not.") for step, loss in found), None
    )


def broken(numerics: str, evidence: Evidence, pairs: Sequence[Pair]) -> Ruling | None:
    """HARMED where the bookkeeping of the training is another than the baseline's.

    What baseline runs differ in among themselves is not the lever's: learning rates that react to the loss, or batches
    of varying size, are others from seed to seed. One run alone does not tell whether a seed fixes the batches.

    The first that is no matter of chance, else the first: chance must be looked for again, with other seeds.
    """
    found = [*filter(None, _looks(numerics, evidence, pairs))]
    return next((ruling for ruling in found if not ruling.by_chance), found[0] if found else None)


def _looks(numerics: str, evidence: Evidence, pairs: Sequence[Pair]) -> Iterator[Ruling | None]:
    baseline, same_seed = evidence.baseline(), (*evidence.base, *evidence.perturbed)
    fields = (field.differing for field in (*FIELDS, FORGETFUL))
    of_draws = (draws.other_places, draws.other_dropouts)
    one_seed = len({run.seed for run in baseline}) < 2
    reacting = partial(_reacting, one_seed=one_seed and numerics == "statistical")
    others = (reacting, _other_limits, _other_counts, _fewer_backwards, _not_cleared, _other_looks)
    of_files = (saved.unwritten, saved.lost_entries)
    samples = partial(_other_samples, one_seed=one_seed)
    checks: tuple[Differing, ...] = (*fields, samples, *of_draws, *others, *of_files)
    for differing in checks:
        yield other_than(pairs, baseline, differing)
    if len(same_seed) > 1:
        data = partial(_other_data, perturbed=bool(evidence.perturbed))
        batches = data if numerics == "statistical" else partial(_other_batches, same_loss=FLOOR_ULPS * FLOAT32_ULP)
        yield other_than(pairs, same_seed, batches)
    yield _coming_again(evidence, pairs)
    yield from updates.looks(evidence, pairs)
    yield other_than([pair for pair in pairs if pair.is_equal()], evidence.base, saved.other_numbers)
    if numerics == "statistical":  # the others hold it to its bytes
        known = (*evidence.base[:1], *(run for run in evidence.base_seeds if run.seed != evidence.base[0].seed))
        yield content.harm(pairs, [Pair(a, b) for a, b in combinations(known, 2)])


def _reacting(a: Run, b: Run, *, one_seed: bool) -> dict[object, str]:
    """Rates, numbers of updates and the end of a training are others. They may react to losses (`ReduceLROnPlateau`,
    early stopping): what comes behind the first other loss only other seeds of the baseline tell (`one_seed`: there is
    none). Ends that vary with the seed are compared as numbers (`prints.beyond_seeds`)."""
    losses = Pair(a, b).of_both(lambda run: run.loss)
    until = next((step for step, mine, other in losses if mine != other), math.inf) if one_seed else math.inf
    rates = RATES.first(a, b)
    found: dict[object, str] = {RATES.name: rates[1]} if rates is not None and rates[0] < until else {}
    first = min(a, b, key=lambda run: run.step_index[-1])
    mine, other = a.step_index[-1], b.step_index[-1]
    if mine != other and first.status is Status.ENDED and first.step_index[-1] < until:
        found["end"] = f"The training came to step {other}; in the baseline to step {mine}."
    return dict([*found.items(), *saved.other_counts(a, b, until=until).items()])


def _other_samples(a: Run, b: Run, *, one_seed: bool) -> dict[str, str]:
    """Models are given more, or fewer, to train on. Samples may be padded otherwise (as many rows), or given in other
    parts (as many numbers), and what one model makes of them to another one (as many rows at once; fewer of such calls
    are fewer backward passes). Where that is not known, it is what loaders gave: a batch that is drawn ahead of its
    step is in another one then. Of samples of varying size (graphs) other random numbers draw others, which only other
    seeds of the baseline tell (`one_seed`: there is none)."""
    if one_seed and RANDOM_STATE.first(a, b):
        return {}
    known = [(step, mine, other) for step, mine, other in Pair(a, b).of_both(lambda run: run.given) if mine and other]
    for step, mine, other in known:
        if all(mine[k] != other[k] for k in range(3)):
            return {"": f"Step {step} has other samples than the baseline: {other[0]} instead of {mine[0]}."}
    return {} if known else SAMPLES.differing(a, b)


def _other_batches(a: Run, b: Run, *, same_loss: float) -> dict[str, str]:
    """The same samples in another order, or in other parts of a step, are no other batches.

    Batches that are others from the first one on, and make the same loss before the first update, to a part of
    `same_loss`, are the same in another form (not scaled yet, of another type, padded otherwise): what comes of them
    later is compared, they are not."""
    first = BATCH.first(a, b)
    if first is None or _same_rows(a, b):
        return {}
    at_first = first[0] == a.step_index[0] == b.step_index[0] == 0
    if at_first and abs(Pair(a, b).first_loss_gap()) <= same_loss:
        return {}
    return {BATCH.name: _of_validation(a, b, first[0]) or first[1]}


def in_another_form(a: Run, b: Run) -> bool:
    """Batches that are others from the first one on hold the same data: losses and updates are bit-equal. Those of a
    loader are a validation's as well, which may be done with other data."""
    first = BATCH.first(a, b)
    at_first = first is not None and first[0] == a.step_index[0] == b.step_index[0] == 0
    updated = bool(a.updates) and a.updates == b.updates
    validates = any(a.num_samples) and (a.num_validations or b.num_validations)
    return at_first and updated and not validates and Pair(a, b).is_equal()


def _of_validation(a: Run, b: Run, step: int) -> str | None:
    """The sentence, where losses show that what the step and the next one train on is the same."""
    losses = {at: (as_float(mine), as_float(other)) for at, mine, other in Pair(a, b).of_both(lambda run: run.loss)}
    trained = [losses.get(at, (None, None)) for at in (step, step + 1)]
    same = all(x is not None and y is not None and abs(x - y) <= SAME_FIRST_LOSS * abs(x) for x, y in trained)
    if not (same and a.num_validations):
        return None
    when = f"between steps {step - 1} and {step}" if step else "before step 0"
    return f"The validation {when} has other batches than in the baseline."


def _same_rows(a: Run, b: Run) -> bool:
    """Wherever batches are others, they hold the same samples."""
    if not (a.batch_digest and b.batch_digest and a.rows_digest and b.rows_digest):
        return False
    other = [(i, j) for _, i, j in Pair(a, b).steps() if a.batch_digest[i] != b.batch_digest[j]]
    return all(a.rows_digest[i] == b.rows_digest[j] is not None for i, j in other)


def _other_data(a: Run, b: Run, *, perturbed: bool) -> dict[str, str]:
    """Other batches although nothing was drawn that is not drawn in the baseline: not chance, but other data.

    What no loader made may be the work of a model (of a generator), which rounding changes from the first update on:
    without runs that are perturbed (`perturbed`) the first step alone is known to be other data. And where a model
    draws as well, it may have drawn before what was drawn behind it.
    """
    if not (a.rng_digest and b.rng_digest) or any(field.first(a, b) for field in (RANDOM_STATE, SOURCES)):
        return {}
    first = BATCH.first(a, b)
    later = first is not None and first[0] > a.step_index[0]
    if not any(a.num_samples) and (gradients.draws_forward(a) or (later and not perturbed)):
        return {}
    found = _other_batches(a, b, same_loss=SAME_FIRST_LOSS)
    return {key: f"{why} The random numbers are the same." for key, why in found.items()}


def _other_limits(a: Run, b: Run) -> dict[str, str]:
    """Gradients are clipped to something else, or not at all. A script may do it by means of its own, which are not
    seen: whether it does, losses show where gradients were beyond the limit."""
    known = [(step, mine, other) for step, mine, other in Pair(a, b).of_both(lambda run: run.clips) if mine and other]
    is_shown = any(mine[1] or other[1] for _, mine, other in known)
    for step, (mine, _), (other, _) in known:
        if mine != other and not (is_shown and "" in (mine, other)):
            limits = f"{other or 'none'} instead of {mine or 'none'}"
            return {"": f"Step {step} has other limits of gradients than the baseline: {limits}."}
    return {}


def _other_counts(a: Run, b: Run) -> dict[str, str]:
    """In as many steps a GradScaler left out another number of updates, or the script validates less often. The loops
    around the steps go round more often, or less, than the window has steps to show (with other batches to a step the
    same loops are other steps)."""
    found = {}
    mine, other = a.skipped_updates, b.skipped_updates
    if mine != other and a.step_index == b.step_index:
        found["skips"] = f"{other} updates were skipped because gradients overflowed; in the baseline {mine}."
    plan, planned = a.planned_steps, b.planned_steps
    if plan is not None and planned is not None and plan != planned and SAMPLES.first(a, b) is None:
        found["plan"] = f"The loops around its steps make {planned:,} steps; in the baseline {plan:,}."
    mine, other = a.num_validations, b.num_validations
    # Beside passes without gradients in each step (of a generator, a target) a validation may not be told apart.
    beside = {all(without is not None for _, without, _ in run.draws or [(None,) * 3]) for run in (a, b)}
    if mine > other and a.step_index == b.step_index and len(beside) == 1:
        times = f"{plural(other, 'time')} in {len(b.step_index)} steps"
        found["validations"] = f"The script validates {times}; in the baseline {mine}."
    return found


def _other_looks(a: Run, b: Run) -> dict[str, str]:
    """A validation is given other samples each time, where in the other run it is given those of the first time: its
    numbers vary by chance then."""
    looks = Pair(a, b).of_both(lambda run: run.fresh_looks)
    again = [row for row in looks if None not in row][1:]
    if any((mine is None) != (other is None) for _, mine, other in looks):
        return {}  # what is a validation, and what comes beside it in each step, is not known
    for mine, other in ((1, 2), (2, 1)):
        if again and all(row[mine] == 0 and row[other] > MAX_REPEATED for row in again):
            step, was, became = again[0]
            new = f"at step {step} {became:.0%} had not come before; in the baseline {was:.0%}"
            return {"looks": f"Models that are called without gradients are given other samples: {new}, and so on."}
    return {}


def _fewer_backwards(a: Run, b: Run) -> dict[str, str]:
    """A step goes backward less often than most that do so as often in the other run: of an accumulation a part is
    lost. Parts that are merged, or split, make another number in all of them; a closure is called as often as a line
    search wants, which rounding changes."""
    closure = any(optimizer.closure for run in (a, b) for optimizer in run.optimizers)
    if closure:
        return {}
    by_baseline: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for step, wanted, number in Pair(a, b).of_both(lambda run: run.num_backwards):
        by_baseline[wanted].append((number, step))
    for wanted, found in by_baseline.items():
        usual = median_low(number for number, _ in found)
        number, step = min(found)
        if number < usual:
            passes = plural(number, "backward pass")
            return {"": f"Step {step} has {passes}; others that have {wanted} in the baseline have {usual}."}
    return {}


def _not_cleared(a: Run, b: Run) -> dict[str, str]:
    """Gradients hold more backward passes than in the other run, and by more than there are more of them: what one pass
    left was not cleared before the next one, be it that of another network's loss. (A pass that is split, or several
    that are merged, is not that.)"""
    backwards = [(mine, other) for _, mine, other in Pair(a, b).of_both(lambda run: run.num_backwards)]
    added = Pair(a, b).of_both(lambda run: run.num_added) if has_optimizer(a) else []
    for (mine, other), (step, was, became) in zip(backwards, added, strict=False):
        if became - was > max(0, other - mine):
            why = f"{plural(became, 'backward pass')} in place of {was} since they were last cleared"
            return {"": f"The updates of step {step} are by gradients that were not cleared as in the baseline: {why}."}
    return {}


def _coming_again(evidence: Evidence, pairs: Sequence[Pair]) -> Ruling | None:
    """More comes again than in the baseline (stale batches, a fixed order, an augmentation that is frozen), or less."""
    for what, values in _FRESH.items():
        usual = max((_new(a, b, values)[0] for a, b in combinations(evidence.baseline(), 2)), default=0.0)
        found = sorted(_new(pair.base, pair.lever, values) for pair in pairs if not _is_moved(pair, what))
        # In one seed of several it may be chance, in each of them it is none.
        gap, step, mine, other = found[(len(found) - 1) // 2] if found else (0.0, 0, 0.0, 0.0)
        if gap > usual + MAX_REPEATED:
            again = f"{1 - other:.0%} had come before; in the baseline {1 - mine:.0%}"
            in_each = len(found) > 1 and found[0][0] > usual + MAX_REPEATED
            return harmed(f"Of the {what} up to step {step}, {again}.", by_chance=not in_each)
    return None


def _is_moved(pair: Pair, what: str) -> bool:
    """Few labels come again sooner where they are sorted; and what was drawn before the model is drawn in it."""
    if what == "batches":
        return _same_rows(pair.base, pair.lever)
    return gradients.draws_forward(pair.lever) and not gradients.draws_forward(pair.base)


_Fresh = Callable[[Run], Sequence[float | None] | None]


def _alone(k: int, num_inputs: int) -> _Fresh:
    """Input `k` by itself, where models are given as many: data that are frozen may come with noise that is not."""
    return lambda run: [row[k] if row and len(row) == num_inputs else None for row in run.fresh_inputs or ()]


_FRESH: Mapping[str, _Fresh] = {
    "samples": lambda run: run.fresh_samples,
    "batches": lambda run: run.fresh_batches,
    **{f"samples (input {k + 1} of {num})": _alone(k, num) for num in range(2, MAX_INPUTS + 1) for k in range(num)},
}


def _new(a: Run, b: Run, values: _Fresh) -> tuple[float, int, float, float]:
    """(largest gap between the parts that were new of all so far, step, part in a, part in b)."""
    both = [row for row in Pair(a, b).of_both(values) if None not in row]
    steps, *parts = np.array(both, dtype=float).reshape(-1, 3).T
    mine, other = (part.cumsum() / np.arange(1, len(part) + 1) for part in parts)
    gaps = abs(mine - other)[MIN_STEPS - 1 :]
    if not len(gaps):
        return 0.0, 0, 0.0, 0.0
    at = MIN_STEPS - 1 + int(gaps.argmax())
    return float(gaps.max()), int(steps[at]), float(mine[at]), float(other[at])

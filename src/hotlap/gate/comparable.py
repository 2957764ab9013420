"""Is there enough to judge by? Runs that came to steps with losses, and the same things recorded on both sides."""

from collections.abc import Sequence

from hotlap.gate.evidence import MIN_STEPS, Evidence, Pair, Ruling, loss_matrix, not_finite_losses, undecided
from hotlap.gate.step_fields import BATCH, FIELDS, RATES, SAMPLES, StepField, has_optimizer
from hotlap.record import Run, Status
from hotlap.units import plural

# A script whose own losses are not finite in more of its steps has nothing that could be harmed further.
MAX_NOT_FINITE = 0.1
# Of what `OptimizerFacts.settings` counts.
_REQUIRE_GRADIENTS = "parameters that require gradients"
FAILED = (Status.CRASHED, Status.KILLED, Status.HUNG, Status.SILENT)


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
    num_common = min(len(loss_matrix([pair.base, pair.lever])[0]) for pair in pairs)
    if num_common < MIN_STEPS:
        return undecided(f"Only {num_common} steps have a loss on both sides; it takes {MIN_STEPS} to judge.")
    return None


def missing(numerics: str, pairs: Sequence[Pair]) -> Ruling | None:
    """UNDECIDED where something that the contract compares was not recorded."""
    for pair in pairs:
        fields = [field for field in (*FIELDS, RATES, SAMPLES) if has_optimizer(pair.base) or not field.of_optimizer]
        for field in fields if numerics == "statistical" else (*fields, BATCH):
            if not (_complete(field, pair.base) and _complete(field, pair.lever)):
                return undecided(f"It was not recorded which {field.name} the steps had, so nothing is proved.")
        # Of a training without loaders and modules no batch is seen.
        if numerics != "statistical" and len({any(run.batch_digest or ()) for run in (pair.base, pair.lever)}) > 1:
            return undecided("Batches were recorded of one side only, so nothing is proved.")
        if any(pair.base.num_updates) and not (pair.base.updates and pair.lever.updates):
            return undecided("It was not recorded what the updates did to the parameters, so nothing is proved.")
    return None


def cut_otherwise(pairs: Sequence[Pair]) -> Ruling | None:
    """UNDECIDED where as many elements are trained in another number of tensors: several layers that are one now. They
    cannot be compared one by one."""
    for (tensors, elements), (others, same) in ((_trained(pair.base), _trained(pair.lever)) for pair in pairs):
        if tensors and others and tensors != others and elements == same:
            return undecided(
                f"Parameters are cut otherwise, {plural(others, 'tensor')} of {same:,} elements together instead of "
                f"{tensors}: their updates cannot be set side by side."
            )
    return None


def _trained(run: Run) -> tuple[int, int]:
    """(tensors, elements) of all optimizers; no tensor where some of them require no gradients."""
    numbers = [(one.num_parameters, one.num_elements) for one in run.optimizers]
    tensors, elements = (sum(column) for column in zip(*numbers, strict=True)) if numbers else (0, 0)
    all_train = all(one.settings.get(_REQUIRE_GRADIENTS) == str(one.num_parameters) for one in run.optimizers)
    return (tensors if all_train else 0), elements


def _why_unusable(run: Run) -> str | None:
    num_steps, num_not_finite = len(run.step_index), len(not_finite_losses(run))
    reasons = (
        (run.status in FAILED, f"{run.status.value}: {run.error or 'no reason recorded'}".rstrip(".")),
        (bool(run.not_installed), f"could not install it: {'; '.join(run.not_installed)}".rstrip(".")),
        (bool(run.unreached), f"did not run the edit of {' and '.join(run.unreached)}"),
        (num_steps == 0, "made no step"),
        (all(loss is None for loss in run.loss), "shows no loss"),
        (len(run.loss) != num_steps, f"has {num_steps} steps but {len(run.loss)} losses"),
        (num_not_finite > MAX_NOT_FINITE * num_steps, "has losses that are not finite: nothing to compare"),
    )
    return next((reason for applies, reason in reasons if applies), None)


def _complete(field: StepField, run: Run) -> bool:
    """True if the field was recorded at each step."""
    values = field.values(run)
    return values is not None and len(values) == len(run.step_index)

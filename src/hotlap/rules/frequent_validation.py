"""frequent-validation: the trained model is evaluated so often that training waits for it.

What it says: the part of all time that passes between steps in stretches without training (validation, or sampling),
how many steps lie between two of them, and whether most of that goes to the loader; or, where each step has one, the
part of a step that passes in forward passes in evaluation mode.
Why it is bad: a validation trains nothing. Once an epoch, or on a part of the data, it says as much about the curve.
Workers of its loader are started anew each time, unless that has `persistent_workers=True`.
Example: an accuracy over the whole validation set after every tenth batch.
Risk: the curve of the validation has fewer points, and early stopping reacts later.

Before:

    for i, (x, y) in enumerate(loader):
        train(x, y)
        if i % 10 == 0:
            evaluate(model)

After:

    for x, y in loader:
        train(x, y)
    evaluate(model)
"""

from hotlap.record import Finding, Machine, Run, SightingKind
from hotlap.rules.advice import of_line
from hotlap.rules.step import at_sighting, evaluation_s, finding, num_steps, sightings, validation_s
from hotlap.units import duration, percent

# Ours: forward passes over a fifth of the data after each epoch are less than a tenth of it, over as many items as are
# trained on a quarter.
MIN_SHARE = 0.30

# Ours: as for a step's own causes, half of it explains it.
_MOST = 0.5


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """Between the steps where that was seen twice at least; else within them."""
    worst = next(iter(sightings(run, SightingKind.EVALUATION)), None)
    step_s = run.mean_step_s()
    between_s = validation_s(run) if run.num_validations > 1 else 0.0
    cost_s, whole_s = (between_s, step_s + between_s) if between_s else (evaluation_s(run), step_s)
    if whole_s <= 0 or cost_s < MIN_SHARE * whole_s:
        return None
    where = f": {worst.what}{at_sighting(worst)}" if worst is not None else ""
    if between_s:
        each = num_steps(run) / run.num_validations
        stretch = f"a stretch without training (validation, or sampling), {duration(each * cost_s)} long,"
        what, of = f"One in {each:.3g} steps is followed by {stretch}", "all time"
        where += _loading(run)
    else:
        what = f"Forward passes of the trained model in evaluation mode take {duration(cost_s)} a step,"
        of = "it"
    told = f"{what} {percent(cost_s / whole_s)} of {of}{where}."
    return finding(run, cost_s, told, change=of_line(worst), all_s=whole_s if between_s else None)


def _loading(run: Run) -> str:
    """A clause where most of it goes to loaders: no other forward passes would make that shorter."""
    if run.validation_input_s < _MOST * run.validation_s:
        return ""
    each_s = run.validation_input_s / run.num_validations
    loaders = [one for one in run.loaders if not one.trained_on and not one.loader_anew]
    started = loaders and all(one.num_workers and not one.persistent_workers for one in loaders)
    why = ", whose workers are started anew each time (`persistent_workers=True` keeps them)" if started else ""
    return f"; {duration(each_s)} of that in its loader{why}"

"""frozen-features: a part of the model that learns nothing computes the same of each sample in every epoch.

What it says: the line of the forward pass that takes longest, where a good part of a step is in operators that take
part in no gradient. At most all of a step is to be had, from the second epoch on, but the backward pass, the update and
what trained layers and the loss compute and call: samples are not loaded again either. It is said on the CPU, of
scripts that freeze something for good (`requires_grad_(False)`, `requires_grad = False`), and of a model under
`no_grad` that no optimizer has (a teacher), where it is given items of the loader as they are and these come again the
same; a copy of what is trained (a target network, averaged weights) changes now and then. Where what is trained is
given the same samples, no more than the passes of that model are to be had.
Why it is bad: a frozen network is mostly the larger part, and gives the same features for the same sample each time.
Example: a new head on a pretrained network that is frozen, trained for twenty epochs.
Risk: features that augmentation, dropout, BatchNorm in training mode or an update makes anew must stay as they are.

Before:

    for epoch in range(epochs):
        for x, y in loader:
            with torch.no_grad():
                features = backbone(x)
            loss = criterion(head(features), y)

After:

    with torch.no_grad():
        features = torch.cat([backbone(x) for x, _ in in_order])
    made = DataLoader(TensorDataset(features, labels), batch_size=64, shuffle=True)
    for epoch in range(epochs):
        for f, y in made:
            loss = criterion(head(f), y)
"""

import ast

from hotlap.record import Finding, HotLine, Machine, Phase, Run, Sighting, SightingKind
from hotlap.rules.advice import advice, of_line
from hotlap.rules.change import readable
from hotlap.rules.step import at_lines, at_pace, at_sighting, sightings, without_gradients_s
from hotlap.source import Script

# Ours: a training that is a fifth shorter is worth a loop over the data beforehand.
MIN_SHARE = 0.20
# Of so much of a step it is the reason why the rest is told.
_MOST = 0.5


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """Operators of the forward pass on tensors without gradients, where the script freezes something, or calls a model
    under `no_grad` that nothing trains."""
    loader, seen = run.main_loader(), _untrained(run)
    if run.share_of(_frozen_s(run)) < MIN_SHARE or not run.optimizers or (loader and loader.deterministic is False):
        return None
    if not seen and not any(map(_freezes, readable(run))):
        return None
    if run.operators is not None and run.operators.recomputed_s:
        return None  # what is computed again later is under `no_grad` the first time
    line = seen[0] if seen else next((line for line in run.hot_lines if line.phase is Phase.FORWARD), None)
    at_most_s = _at_most_s(run)
    place = at_lines([line], at_most_s) if isinstance(line, HotLine) else f": {seen[0].what}{at_sighting(seen[0])}"
    return advice(
        run,
        at_most_s,
        "The forward pass has operators that take part in no gradient. They make the same of a sample in each epoch, "
        "unless augmentation, a dropout, a BatchNorm in training mode (which takes the mean of its batch, frozen or "
        "not) or an update of their weights changes it: made before the training, under `no_grad`, they cost one pass "
        f"over the data{place}",
        change=of_line(line),
    )


def explains(run: Run) -> frozenset[str]:
    """What arithmetic takes as well, where most of the step is such."""
    return frozenset({"compute-bound", "launch-bound"} if run.share_of(_frozen_s(run)) >= _MOST else ())


def _frozen_s(run: Run) -> float:
    return max(without_gradients_s(run, Phase.FORWARD), _untrained_s(run)) if run.on_cpu else 0.0


def _untrained(run: Run) -> list[Sighting]:
    """Passes of models that nothing trains, where their samples are known to come again as they were."""
    loader = run.main_loader()
    if loader is None or not (loader.deterministic or "TensorDataset" in (loader.dataset, loader.subset_of)):
        return []
    epoch = run.epoch_steps_of(loader)
    once = epoch is None or (run.planned_steps is not None and run.planned_steps <= epoch)
    return [] if once else sightings(run, SightingKind.FROZEN)


def _untrained_s(run: Run) -> float:
    """Their part of the forward passes, as it was in the first steps."""
    return (run.mean_phase_s(Phase.FORWARD) or 0.0) * sum(float(one.detail["part"] or 0) for one in _untrained(run))


def _at_most_s(run: Run) -> float:
    """All but the backward pass, the update, and arithmetic and bare calls of what is trained: what makes features
    takes its calls, its Python and its samples with it. By arithmetic alone a frozen recurrent net promised 1.67x at
    most, and gave 6x (8.5 to 1.4 ms a step, two cores). Samples that what is trained is given as well are loaded still:
    then it is the passes alone."""
    if any(one.detail["shared"] for one in _untrained(run)):
        return _untrained_s(run)
    call_s = run.calls.call_s if run.calls is not None else 0.0
    kept_s = sum(run.mean_phase_s(phase) or 0.0 for phase in (Phase.BACKWARD, Phase.OPTIMIZER, Phase.COMMUNICATION))
    for phase in (Phase.FORWARD, Phase.OTHER):
        seen = run.calls_in(phase)
        kept_s += at_pace(run, phase, seen.graph_s + seen.graph_calls * call_s)
    return run.mean_step_s() - kept_s


def _freezes(script: Script) -> bool:
    """Some parameters, and for good: not from step to step, as a discriminator while its generator learns."""
    by_call = (call for call in script.methods("requires_grad_") if call.args and _is_false(call.args[0]))
    by_name = (
        node
        for node in ast.walk(script.tree)
        if isinstance(node, ast.Assign)
        and _is_false(node.value)
        and any(isinstance(target, ast.Attribute) and target.attr == "requires_grad" for target in node.targets)
    )
    passes = tuple(script.methods("backward"))
    steps = {loop for call in passes for loop in script.around(call) if isinstance(loop, ast.For | ast.While)}
    return any(steps.isdisjoint(script.around(node)) for node in (*by_call, *by_name))


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False

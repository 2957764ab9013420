"""frozen-features: a part of the model that learns nothing computes the same of each sample in every epoch.

What it says: how much of each step passes in operators of the forward pass that take part in no gradient, and the line
that calls most of them. That is the most to be had, from the second epoch on. It is said on the CPU, of
scripts that freeze something for good (`requires_grad_(False)`, `requires_grad = False`).
Why it is bad: a frozen network is mostly the larger part, and gives the same features for the same sample each time.
Example: a new head on a pretrained network that is frozen, trained for twenty epochs.
Risk: features that augmentation, dropout or an update of the network makes anew must stay as they are.

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
from pathlib import Path

from hotlap.record import Finding, Machine, Phase, Run
from hotlap.rules.advice import advice, readable
from hotlap.rules.step import Change, at_pace, file_name, on_cpu, share_of
from hotlap.source import Script

# Ours: a training that is a fifth shorter is worth a loop over the data beforehand.
MIN_SHARE = 0.20
# Ours: a line that makes so much of it is the one to name.
_MOST = 0.5


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """Operators of the forward pass on tensors without gradients, where the script freezes something."""
    cost_s = _frozen_s(run)
    if share_of(run, cost_s) < MIN_SHARE or not run.optimizers:
        return None
    if run.operators is not None and run.operators.recomputed_s:
        return None  # what is computed again later is under `no_grad` the first time
    files = readable(run)
    lines = run.calls.phases[Phase.FORWARD].lines if run.calls is not None else {}
    place = max(lines, key=lambda line: lines[line], default="")
    path, _, number = place.rpartition(":")
    script = next((one for one in files if Path(one.path).resolve() == Path(path)), None)
    named = script is not None and lines[place] >= _MOST * sum(lines.values())
    if not any(map(_freezes, files)):
        return None
    where, change = "", Change("", "", _once("backbone"))
    if named and script is not None:
        text = script.text.splitlines()[int(number) - 1].strip()
        where = f", most of its time in line {number} of {file_name(script.path)}: {text}"
        change = Change(f"{file_name(script.path)}:{number}", text, _once(_called(script, int(number))))
    return advice(
        run,
        cost_s,
        f"The forward pass has operators that take part in no gradient{where}. They make the same of a sample in each "
        "epoch, unless augmentation, a dropout or an update of their weights changes it: made once, they cost one pass "
        "over the data",
        change=change,
    )


def _once(network: str) -> str:
    features = f"torch.cat([{network}(x) for x, _ in DataLoader(dataset, batch_size=256)])"
    return f"with torch.no_grad():  # once; then train on these\n    features = {features}"


def _called(script: Script, line: int) -> str:
    """What the line calls first, as the script spells it."""
    calls = (node for node in script.all_calls() if node.lineno == line)
    outermost = next((node for node in calls if len(node.args) == 1), None)
    return "backbone" if outermost is None else script.code(outermost.func)


def explains(run: Run) -> frozenset[str]:
    """What arithmetic takes as well, where most of the step is such."""
    return frozenset({"compute-bound", "launch-bound"} if share_of(run, _frozen_s(run)) >= _MOST else ())


def _frozen_s(run: Run) -> float:
    seen = run.calls.phases.get(Phase.FORWARD) if run.calls is not None and on_cpu(run) else None
    return 0.0 if seen is None else at_pace(run, Phase.FORWARD, seen.arithmetic_s - seen.graph_s)


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

"""unneeded-gradients: a backward pass computes gradients that no optimizer reads.

What it says: the line that goes backward, how many of its gradients are for nothing, and the time of that pass: the
most that can be saved. Where it is all of them, nothing is learnt from that loss. A model that is called for itself and
whose results no trained parameter goes into (a teacher) is named by the line that calls it.
Why it is bad: up to two thirds of a training's arithmetic is in its backward passes; and where no step uses any of it,
that part of the script learns nothing.
Example: a head is trained on layers that are left out of the optimizer, but still require gradients; a teacher without
`no_grad`; a generator that is trained through its discriminator; `zero_grad()` between `backward()` and `step()`.
Risk: what does not require gradients is not trained: `hotlap check` sees that.

Before:

    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
    for x, y in loader:
        wanted = teacher(x)
        loss = distance(student(x), wanted)
        loss.backward()

After:

    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
    for x, y in loader:
        with torch.no_grad():
            wanted = teacher(x)
        loss = distance(student(x), wanted)
        loss.backward()
"""

import ast
from collections.abc import Sequence

from hotlap.record import CallSite, Finding, Machine, Phase, Run
from hotlap.rules.advice import advice, replaced, without_graph
from hotlap.rules.change import Change, file_name, readable
from hotlap.rules.step import finding, on_cpu, phase_s, share_of, spent
from hotlap.source import Script, found_at

# Ours: of a pass that takes less, a part is not worth a change.
MIN_SHARE = 0.05

# What reads gradients without changing them, gathers them for something that does, waits for them on their way, or
# keeps those of tensors that are no parameters.
_READERS = ("get_total_norm", "GradScaler", "DistributedDataParallel", "fully_shard", "register_hook", "retain_grad",
            "register_full_backward_hook", "register_post_accumulate_grad_hook")  # fmt: skip

EXPLAINS = frozenset({"launch-bound", "memory-bound"})


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """The costliest line, in a script that reads no gradients itself."""
    worst = _worst(run)
    if worst is None or share_of(run, _pass_s(run, worst)) < MIN_SHARE:
        return None
    files = readable(run)
    script = next((one for one in files if one.path == worst.path), None)
    if script is None or any(_reads_gradients(one) for one in files):
        return None
    return _in_part(run, files, script, worst) if worst.detail.get("needs") else _in_vain(run, script, worst)


def explains(run: Run) -> frozenset[str]:
    """What arithmetic takes as well, where most of the gradients are for nothing."""
    detail = worst.detail if (worst := _worst(run)) is not None else {}
    unneeded, elements = (float(detail.get(name) or 0) for name in ("unneeded", "elements"))
    return EXPLAINS | {"compute-bound"} if unneeded > elements / 2 else EXPLAINS


def _worst(run: Run) -> CallSite | None:
    found = [one for one in run.call_sites if one.calls == "backward" and one.detail.get("unneeded")]
    return max(found, key=lambda one: _pass_s(run, one), default=None)


def _pass_s(run: Run, site: CallSite) -> float:
    """Seconds a step of that line's passes at most; on a device, where the host's clock does not tell, of all."""
    all_s, seconds = phase_s(run, Phase.BACKWARD) or 0.0, site.detail.get("seconds")
    return min(all_s, float(seconds)) if on_cpu(run) and isinstance(seconds, int | float) else all_s


def _in_part(run: Run, files: Sequence[Script], script: Script, site: CallSite) -> Finding | None:
    """Of some of its gradients; nobody knows what part of its time they are, so it is advice. What lies behind the
    layers of another optimizer is reached through them: the product that passes a gradient on, as large as that of a
    layer's own weights, stays. And what comes when the last of them is computed stays in any case."""
    until = float(site.detail.get("until", 1.0) or 0.0) if on_cpu(run) else 1.0
    whose, cost_s = "of parameters that another optimizer has, and clears unread", _pass_s(run, site) * until / 2
    if not site.detail.get("owned"):
        whose, cost_s = "of parameters that no optimizer has", _pass_s(run, site)
    if share_of(run, cost_s) < MIN_SHARE:
        return None
    unneeded, elements = (int(site.detail.get(name) or 0) for name in ("unneeded", "elements"))
    evidence = f"{_place(site)} computes {elements:,} gradients, {unneeded:,} of them {whose}"
    change = _without_graph(run, files)
    if change is not None:
        evidence += f": nothing that is trained goes into the call at {change.where}"
    change = change or _of_inputs(run, script, site)
    if change is None:
        return None
    if not change.can_stand(run):  # its optimizer has no name there
        remedy = "`inputs=` of what is trained" if site.detail.get("owned") else "`requires_grad_(False)` on these"
        evidence += f": {remedy} leaves them out"
    return advice(run, cost_s, evidence, change=change)


def _without_graph(run: Run, files: Sequence[Script]) -> Change | None:
    """`with torch.no_grad():` around the call of a model, the largest, whose results nothing that is trained goes into;
    None where there is none, or it stands where nothing can be put in front of it."""
    sites = [one for one in run.call_sites if one.calls == "no_grad"]
    largest = max(sites, key=lambda one: int(one.detail.get("unneeded") or 0), default=None)
    found = found_at(largest, files) if largest is not None else None
    return without_graph(*found) if found is not None else None


def _of_inputs(run: Run, script: Script, site: CallSite) -> Change | None:
    """`inputs=` of the backward pass, where it has no arguments of its own but `retain_graph`."""
    call = script.at(site)
    if call is None or call.args or any(word.arg != "retain_graph" for word in call.keywords):
        return None
    names = _optimizers(run, script, site) or ("optimizer",)
    groups = f"for group in {names[0]}.param_groups"
    if len(names) > 1:
        groups = f"for optimizer in ({', '.join(names)}) for group in optimizer.param_groups"
    trained = f'[p {groups} for p in group["params"] if p.requires_grad]'
    given = [f"{word.arg}={script.code(word.value)}" for word in call.keywords]
    return replaced(script, call, f"{script.code(call.func)}({', '.join([*given, f'inputs={trained}'])})")


def _in_vain(run: Run, script: Script, site: CallSite) -> Finding:
    """Of all of them."""
    cost_s = _pass_s(run, site)
    cleared = "are cleared before an optimizer steps with them"
    why = cleared if site.detail.get("owned") else "are of parameters that no optimizer has"
    takes = f"{'' if on_cpu(run) else 'at most '}{spent(run, cost_s)}"
    return finding(
        run,
        cost_s,
        f"{_place(site)} takes {takes} of each step, and all gradients that it computes {why}: nothing is learnt from "
        "that loss.",
        change=Change(script.path, site.line, script.text.splitlines()[site.line - 1].strip()),
    )


def _place(site: CallSite) -> str:
    return f"The backward pass in line {site.line} of {file_name(site.path)}"


def _optimizers(run: Run, script: Script, site: CallSite) -> tuple[str, ...]:
    """What the script calls the optimizers that step with them."""
    needs = str(site.detail.get("needs")).split()
    steps = [one for one in run.call_sites if one.calls == "optimizer.step" and str(one.detail.get("steps")) in needs]
    calls = [call.func for one in steps if (call := script.at(one)) is not None]
    return tuple(dict.fromkeys(script.code(func.value) for func in calls if isinstance(func, ast.Attribute)))


def _reads_gradients(script: Script) -> bool:
    """By itself: `.grad`, which is torch's own name for a function as well, or what is known to."""
    read = (node for node in ast.walk(script.tree) if isinstance(node, ast.Attribute) and node.attr == "grad")
    by_hand = any((script.full_name(node) or "").partition(".")[0] != "torch" for node in read)
    return by_hand or script.spelled(*_READERS) is not None

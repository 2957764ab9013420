"""unneeded-gradients: a backward pass computes gradients that no optimizer reads.

What it says: the line that goes backward, how many of its gradients are for nothing, and the time of that pass: the
most that can be saved. Where it is all of them, nothing is learnt from that loss.
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

from hotlap.record import CallSite, Finding, Machine, Phase, Run
from hotlap.rules.advice import advice
from hotlap.rules.change import Change, file_name, readable
from hotlap.rules.step import MIN_IN_VAIN, finding, phase_s
from hotlap.source import Script
from hotlap.units import plural

# What reads gradients without changing them, gathers them for something that does, waits for them on their way, or
# keeps those of tensors that are no parameters.
_READERS = ("get_total_norm", "GradScaler", "DistributedDataParallel", "fully_shard", "register_hook", "retain_grad",
            "register_full_backward_hook", "register_post_accumulate_grad_hook")  # fmt: skip

EXPLAINS = frozenset({"launch-bound", "memory-bound"})


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """The costliest line, in a script that reads no gradients itself."""
    worst = _worst(run)
    if worst is None or run.share_of(_pass_s(run, worst)) < MIN_IN_VAIN:
        return None
    files = readable(run)
    script = next((one for one in files if one.path == worst.path), None)
    if script is None or any(_reads_gradients(one) for one in files):
        return None
    place = f"The backward pass in line {worst.line} of {file_name(worst.path)}"
    change = Change(script.path, worst.line, script.text.splitlines()[worst.line - 1].strip())
    cost_s, owned = _pass_s(run, worst), bool(worst.detail.get("owned"))
    number, unneeded, elements = (int(worst.detail.get(name) or 0) for name in ("parameters", "unneeded", "elements"))
    if unneeded == elements:
        why = "are cleared before an optimizer steps with them" if owned else "are of parameters that no optimizer has"
        takes = f"takes {'' if run.on_cpu else 'at most '}{run.with_share(cost_s)} of each step"
        all_for_nothing = f"{takes}, and all gradients that it computes {why}: nothing is learnt from that loss."
        return finding(run, cost_s, f"{place} {all_for_nothing}", change=change)
    whose, remedy = "no optimizer has", "`requires_grad_(False)` on these, or `no_grad` around what only they are in,"
    if owned:
        whose = "another optimizer has, and clears unread"
        remedy = "`detach()` of what only these made, or `inputs=` of what is trained,"
    of_them = f"computes {elements:,} gradients, {unneeded:,} of them of {plural(number, 'parameter')} that {whose}"
    return advice(run, cost_s, f"{place} {of_them}: {remedy} leaves them out", change=change)


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
    return min(all_s, float(seconds)) if run.on_cpu and isinstance(seconds, int | float) else all_s


def _reads_gradients(script: Script) -> bool:
    """By itself: `.grad`, which is torch's own name for a function as well, or what is known to."""
    read = (node for node in ast.walk(script.tree) if isinstance(node, ast.Attribute) and node.attr == "grad")
    by_hand = any((script.full_name(node) or "").partition(".")[0] != "torch" for node in read)
    return by_hand or script.spelled(*_READERS) is not None

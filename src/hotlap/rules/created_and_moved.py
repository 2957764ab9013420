"""created-and-moved: tensors are made on the host and then sent to the device.

What it says: the line that makes one in each step, how it reads with `device=`, and the time of all copies at most.
Why it is bad: the host computes or fills what the device would, and then waits for the copy; `device=` makes it where
it is used (PyTorch's tuning guide, "create tensors directly on the target device"). Random numbers drawn there are
others: the generators of host and device differ, and what the host draws next (the order of samples) changes too.
Example: `torch.zeros(64).to(device)` in the loop, which is `torch.zeros(64, device=device)`.
Risk: constants stay as they are; random numbers drawn on the device are others.

Before:

    mask = torch.zeros(64).to(device)

After:

    mask = torch.zeros(64, device=device)
"""

import ast

from hotlap.record import Finding, Machine, Phase, Run, SightingKind
from hotlap.rules.advice import advice, of_line
from hotlap.rules.step import cost_of, sightings
from hotlap.source import device_of, parsed

_MAKERS = frozenset(
    {"arange", "empty", "eye", "full", "linspace", "ones", "tensor", "zeros", "rand", "randint", "randn", "randperm"}
)

# A choice of these cannot simply be handed on.
_CHOSEN = {"device", "generator", "out", "pin_memory", "layout", None}


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """The line with the most bytes."""
    seen = sightings(run, SightingKind.CREATED_AND_MOVED)
    if not seen or run.on_cpu or not run.step_s:
        return None
    worst = max(seen, key=lambda one: (one.cost_s or 0.0, one.num_bytes or 0.0))
    at_most_s = max(cost_of(seen), run.mean_phase_s(Phase.TRANSFER) or 0.0)
    change = of_line(worst, _made_there(worst.text))
    evidence = f"{worst.what} makes a tensor on the host, {worst.per_step:.3g} times a step, which is then moved"
    return advice(run, at_most_s, evidence, change=change)


def _made_there(line: str) -> str:
    """`x = torch.zeros(3).to(device)` -> `x = torch.zeros(3, device=device)`; empty where it cannot be told."""
    script, changed = parsed("", "", line), line
    for moves in script.all_calls if script is not None else ():
        match moves.func:
            case ast.Attribute(value=ast.Call(func=ast.Attribute(attr=maker), keywords=words) as makes):
                device = device_of(moves) if maker in _MAKERS else None
                if script is not None and device is not None and _CHOSEN.isdisjoint(word.arg for word in words):
                    given = ", ".join([*map(ast.unparse, (*makes.args, *words)), f"device={device}"])
                    changed = changed.replace(script.code(moves), f"{ast.unparse(makes.func)}({given})", 1)
    return "" if changed == line else changed

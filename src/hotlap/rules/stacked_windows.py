"""stacked-windows: the pieces of a text that make a batch are sliced one by one.

What it says: the line, one gather that takes the same values, and the time of the script's own Python at most.
Why it is bad: each slice costs some microseconds of Python, and a batch of a small language model is made of hundreds,
while nothing trains.
Example: `torch.stack([data[i : i + length] for i in ix])`, which is `data[ix[:, None] + torch.arange(length)]`.
Risk: none: the values are the same.

Before:

    ix = torch.randint(len(data) - length, (batch_size,))
    x = torch.stack([data[i : i + length] for i in ix])

After:

    ix = torch.randint(len(data) - length, (batch_size,))
    x = data[ix[:, None] + torch.arange(length)]
"""

import ast

from hotlap.record import Finding, Machine, Phase, Run
from hotlap.rules.advice import advice, calls, replaced
from hotlap.rules.step import share_of
from hotlap.source import Script

# Ours, as for host-bound: below a tenth of the step the script's own Python is rarely worth a change.
MIN_SHARE = 0.10


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """Slices of one tensor from drawn starts, in a script whose own Python shows."""
    other_s = run.mean_phase_s(Phase.OTHER) or 0.0
    if share_of(run, other_s) < MIN_SHARE:
        return None
    for script, call in calls(run, "torch.stack"):
        code = _gather(script, call)
        if code is not None:
            change = replaced(script, call, code)
            return advice(run, other_s, "A batch is stacked of slices", change=change)
    return None


def _gather(script: Script, call: ast.Call) -> str | None:
    """`torch.stack([data[i + a : i + a + n] for i in ix])` -> `data[ix[:, None] + torch.arange(a, a + n)]`."""
    match call.args[0] if len(call.args) == 1 and not call.keywords else None:
        case ast.ListComp(
            elt=ast.Subscript(value=ast.Name(id=data), slice=ast.Slice(lower=lower, upper=upper, step=None)),
            generators=[ast.comprehension(target=ast.Name(id=start), iter=ast.Name(id=starts), ifs=[])],
        ) if lower is not None and upper is not None:
            distances = [_distance(bound, start) for bound in (lower, upper)]
            if None not in distances:
                return f"{data}[{starts}[:, None] + torch.arange({distances[0]}, {distances[1]})]"
    return None


def _distance(bound: ast.expr, start: str) -> str | None:
    """`i + 1 + length` -> "1 + length"; None if it is no sum that begins with `i`."""
    terms: list[str] = []
    while isinstance(bound, ast.BinOp) and isinstance(bound.op, ast.Add):
        terms.insert(0, ast.unparse(bound.right))
        bound = bound.left
    return (" + ".join(terms) or "0") if isinstance(bound, ast.Name) and bound.id == start else None

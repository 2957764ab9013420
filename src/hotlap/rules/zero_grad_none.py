"""zero-grad-none: gradients are filled with zeros where they could be dropped.

What it says: the line that asks for zeros (`set_to_none=False`), and the time of filling and adding at most.
Why it is bad: the next backward pass reads, adds and writes where it could put its gradient in place (PyTorch's tuning
guide, "set_to_none"). Leave it where code reads `.grad` in between, or where a parameter gets no gradient in some
steps: with zeros its momentum and weight decay go on, with None it is left alone.
Example: `optimizer.zero_grad(set_to_none=False)`, kept from the days when it was the default.
Risk: code that reads `.grad` in between meets None, and parameters without a gradient are no longer decayed.

Before:

    optimizer.zero_grad(set_to_none=False)

After:

    optimizer.zero_grad()
"""

import ast

from hotlap.record import Finding, Machine, Phase, Run
from hotlap.rules.advice import advice, replaced
from hotlap.rules.change import readable
from hotlap.source import argument


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """Filling is a part of the optimizer's phase, adding one of the backward pass: no more than the optimizer twice."""
    backward_s, optimizer_s = (run.mean_phase_s(phase) or 0.0 for phase in (Phase.BACKWARD, Phase.OPTIMIZER))
    for script in readable(run):
        for call in script.methods("zero_grad"):
            given = argument(call, 0, "set_to_none")
            if isinstance(given, ast.Constant) and given.value is False:
                change = replaced(script, call, f"{script.code(call.func)}()")
                at_most_s = min(backward_s, optimizer_s) + optimizer_s
                return advice(run, at_most_s, "Gradients are filled with zeros", change=change)
    return None

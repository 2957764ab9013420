"""created-and-moved: tensors are made on the host and then sent to the device.

What it says: the line that makes one in each step, and the time of all copies at most.
Why it is bad: the host computes or fills what the device would, and then waits for the copy; `device=` makes it where
it is used (PyTorch's tuning guide, "create tensors directly on the target device"). Random numbers drawn there are
others: the generators of host and device differ.
Example: `torch.zeros(64).to(device)` in the loop, which is `torch.zeros(64, device=device)`.
"""

import re

from hotlap.record import Finding, Machine, Phase, Run, SightingKind
from hotlap.rules.advice import Change, advice, at_line
from hotlap.rules.step import on_cpu

_MOVED = re.compile(r"\)\.(?:to\((?:device=)?([\w.\"':]+)\)|cuda\(\))")


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """The line with the most bytes."""
    seen = [one for one in run.sightings if one.kind is SightingKind.CREATED_AND_MOVED]
    if not seen or on_cpu(run) or not run.step_s:
        return None
    worst = max(seen, key=lambda one: (one.cost_s or 0.0, one.num_bytes or 0.0))
    at_most_s = max(sum(one.cost_s or 0.0 for one in seen), run.mean_phase_s(Phase.TRANSFER) or 0.0)
    after = _MOVED.sub(lambda moved: f", device={moved[1] or chr(34) + 'cuda' + chr(34)})", worst.text, count=1)
    change = at_line(worst, after if after != worst.text else "")
    evidence = f"{worst.what} makes a tensor on the host, {worst.per_step:.3g} times a step, which is then moved"
    return advice(run, "created-and-moved", at_most_s, evidence, change=change or Change())

"""denormal-numbers: the CPU computes with numbers that are too small for its fast path.

What it says: the part of parameters and optimizer state that is denormal, and the arithmetic of a step at most.
Why it is bad: many processors compute with numbers below 1.2e-38 in microcode, tens of times slower. Each is asked:
where they are as fast (as on an AMD EPYC of family 26), nothing is said. They come up where something dies out: Adam's
moments of a weight without gradients (docs of intel-extension-for-pytorch). Flushed to zero they differ by less than
any sum is rounded. The setting belongs to a thread and to those it starts, so it comes first.
Example: an embedding of which a few rows only are ever used, trained with Adam.
Risk: none that shows: numbers below 1.2e-38 become zero.

Before:

    import torch

After:

    import torch

    torch.set_flush_denormal(True)
"""

from hotlap.record import Finding, Machine, Phase, Run
from hotlap.rules.advice import advice, behind_imports
from hotlap.rules.step import operators_s
from hotlap.units import percent

# Ours: at 150 cycles each, fewer cost less than a tenth of a cycle per element.
MIN_SHARE = 0.0005

_PHASES = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER, Phase.OTHER)


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """Where such numbers were found, on the CPU."""
    share = max((optimizer.denormals or 0.0 for optimizer in run.optimizers), default=0.0)
    if share < MIN_SHARE or not run.on_cpu or not run.step_s:
        return None
    evidence = f"Of the numbers in parameters and optimizer state {percent(share)} are denormal"
    change = behind_imports(run, "torch.set_flush_denormal(True)  # before any thread is started")
    return advice(run, operators_s(run, *_PHASES, waits=False), evidence, change=change)

"""host-bound: the script's own Python between the phases takes a large part of the step.

What it says: this part of each step passes neither in the loader, nor in the model, nor in the optimizer.
Why it is bad: logging, metrics and bookkeeping in Python run while nothing trains.
Example: a confusion matrix updated with Python loops after each batch.
"""

from hotlap.record import Finding, Phase, Run
from hotlap.units import duration, percent

# XProf highlights host time outside of the input from 3% and calls it critical from 15% on; TraceML's residual warns at
# 10%. On a CPU the script's own lines are cheap to see and rarely worth a finding below a tenth.
MIN_SHARE = 0.10


def check(run: Run) -> Finding | None:
    """Share of the step that belongs to no other phase."""
    if run.share(Phase.FORWARD) is None:
        return None  # the model was never called as a module: its arithmetic is hidden in "other"
    share, cost_s = run.share(Phase.OTHER), run.mean_phase_s(Phase.OTHER)
    if share is None or cost_s is None or share < MIN_SHARE:
        return None
    return Finding(
        code="host-bound",
        cost_s=cost_s,
        share=share,
        evidence=f"Each step spends {duration(cost_s)} ({percent(share)} of it) in the script's own Python.",
        try_levers=(),
    )

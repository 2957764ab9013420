"""debug-left-on: a switch for finding faults is on while training.

What it says: anomaly mode, deterministic algorithms, sync debugging, blocking launches or a profiler are on, and what
that costs a step where it could be tried without: steps with it and without it in turns, up to five blocks of each. A
cost is told where its 95% interval lies above none; what cannot be told from none counts as nothing, and stands behind
what costs something.
Why it is bad: each makes every step slower for something that is needed only while a fault is searched for. (If
deterministic algorithms are wanted for what they are, this is their price.)
Example: `torch.autograd.set_detect_anomaly(True)` left over from the search for a NaN.
Risk: without deterministic algorithms two equal runs may differ; the other switches change no number.

Before:

    torch.autograd.set_detect_anomaly(True)

After:

    torch.autograd.set_detect_anomaly(False)
"""

import ast
import math
from dataclasses import replace

from hotlap.record import Finding, Machine, Run, SwitchFacts
from hotlap.rules.advice import behind_imports, calls, replaced
from hotlap.rules.change import Change
from hotlap.rules.step import chosen, finding
from hotlap.student import mean_interval
from hotlap.units import duration

# No threshold: such a switch is said whatever it costs, because it is seldom meant to be on, and what it costs depends
# on operators that a few steps need not contain.

_ANOMALY = tuple(
    f"torch.autograd.{module}{name}"
    for module in ("", "anomaly_mode.")
    for name in ("set_detect_anomaly", "detect_anomaly")
)
_SYNC = ("torch.cuda.set_sync_debug_mode",)
_FILL = "torch.utils.deterministic.fill_uninitialized_memory = False  # fresh memory is not filled with NaN"

_ASKED = {"anomaly-mode": "anomaly mode", "deterministic": "deterministic algorithms", "profiler": "a profiler"}

EXPLAINS = frozenset({"host-bound", "launch-bound", "memory-bound", "optimizer-bound", "sync-bound"})


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """Switches that were on in most steps; their cost from the same steps without them."""
    if run.switches is None or not run.step_s:
        return None
    on = _on(run.switches, on_device=run.device != "cpu")
    if not on:
        return None
    cost_s, untold = 0.0, []
    for one in run.what_ifs:
        name, known = _ASKED.get(one.setting), mean_interval(one.log_ratios)
        if name not in on or known is None:
            continue
        low_s, mid_s, high_s = ((1 - math.exp(-ratio)) * run.mean_step_s() for ratio in known)
        if low_s > 0.0:
            cost_s = min(run.mean_step_s(), cost_s + mid_s)
        else:
            most = run.with_share(max(0.0, high_s))
            untold.append(f"the cost of {name} could not be told from none: at most {most} of each step")
    told = [f"without, each step would be {run.with_share(cost_s)} shorter"] if cost_s else []
    untried = f"what of each step ({duration(run.mean_step_s())}, 100%) that costs could not be tried"
    costs = "; ".join([*told, *untold]) or untried
    left_on = f"Left on while training: {', '.join(on)}; {costs}."
    return replace(finding(run, cost_s, left_on, change=_switched_off(run, run.switches)), at_any_cost=True)


def _switched_off(run: Run, switches: SwitchFacts) -> Change | None:
    """Where one of them is switched on by a constant, and how it is off."""
    wanted = [(_ANOMALY, "torch.autograd.set_detect_anomaly(False)")] if switches.anomaly_mode else []
    wanted += [(_SYNC, "torch.cuda.set_sync_debug_mode(0)")] if switches.sync_debug else []
    for names, code in wanted:
        for script, call in calls(run, *names):
            given = [*call.args[:1], *(word.value for word in call.keywords if word.arg == "mode")]
            if not given or isinstance(given[0], ast.Constant):
                return replaced(script, call, code)
    # Deterministic algorithms stay: sums in another order each time are not for a tool to decide.
    return behind_imports(run, _FILL) if switches.deterministic else None


def _on(switches: SwitchFacts, *, on_device: bool) -> tuple[str, ...]:
    return chosen(
        {
            "anomaly mode": switches.anomaly_mode,
            "deterministic algorithms": switches.deterministic,
            "a profiler": switches.profiler,
            "sync debugging": on_device and switches.sync_debug,
            "CUDA_LAUNCH_BLOCKING": on_device and switches.launch_blocking,
            "deterministic cuDNN": on_device and switches.cudnn_deterministic and not switches.deterministic,
        }
    )

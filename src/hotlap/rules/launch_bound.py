"""launch-bound: the step is made of so many small operators that calling them costs more than what they compute.

What it says: this part of each step goes into calling the model's operators (Python, dispatch, autograd; on a GPU:
launching kernels), not into their arithmetic.
Why it is bad: a call costs microseconds whatever its size, so the processor is busy with handing out work.
Example: a recurrent net written as a Python loop over time, with a few small operators in each turn.
Risk: compiled code rounds differently, and is compiled again for shapes that it has not seen. CUDA graphs (the mode
"reduce-overhead", or backend="cudagraphs" for the kernels as they are) overwrite an output with the next call.

Before:

    model = Net()

After:

    model = torch.compile(Net())  # on a GPU with many small kernels: torch.compile(Net(), mode="reduce-overhead")
"""

from hotlap.record import Finding, IdleReason, Machine, OperatorWindow, Phase, Run
from hotlap.rules.step import Parts, at_line, finding, launch_s, model_levers, on_cpu, parts, share_of, spent
from hotlap.units import duration, percent

# On a GPU, XProf calls kernel launch a problem from 15% of the step on (3% is a note).
MIN_SHARE_ON_DEVICE = 0.15

# On a CPU, ours: there calls and arithmetic add up, and a small but sound network (a few layers, a batch of 64) spends
# a fifth to a third of its step on calls. From this share on a step could be half as long if calls were free.
MIN_SHARE = 0.40

_MODEL = (Phase.FORWARD, Phase.BACKWARD, Phase.OTHER)


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """Calls of the model's operators; those of optimizers are told by optimizer-bound."""
    return _on_cpu(run) if on_cpu(run) else _on_device(run)


def calls_s(run: Run) -> float | None:
    """Seconds of a step on the CPU that calls of the model's operators cost as such; None where none was looked at."""
    divided = _divided(run)
    return sum(part.calls_s for part in divided) if divided else None


def _divided(run: Run) -> list[Parts]:
    return [found for phase in _MODEL if (found := parts(run, phase)) is not None]


def _on_cpu(run: Run) -> Finding | None:
    cost_s, arithmetic_s = calls_s(run), sum(part.arithmetic_s for part in _divided(run))
    if run.calls is None or cost_s is None:
        return None
    share = share_of(run, cost_s)
    if share < MIN_SHARE or cost_s < arithmetic_s:
        return None
    seen = [run.calls.phases[phase] for phase in (Phase.FORWARD, Phase.BACKWARD) if phase in run.calls.phases]
    calls = sum(phase.calls for phase in seen)
    lines = (line for line in run.hot_lines if line.phase is Phase.FORWARD and line.inside)
    line = max(lines, key=lambda line: line.step_s, default=None)
    return finding(
        run,
        cost_s,
        f"Each step makes {calls:,.0f} calls of operators in the model, which cost {duration(cost_s)} "
        f"({percent(share)} of it) beside {duration(arithmetic_s)} of arithmetic{at_line(line, cost_s)}.",
        levers=model_levers(run),
    )


def _on_device(run: Run) -> Finding | None:
    cost_s, seen = launch_s(run), run.operators
    if cost_s is None or seen is None or share_of(run, cost_s) < MIN_SHARE_ON_DEVICE:
        return None
    kernels = "" if seen.num_kernels is None else f" between {seen.num_kernels:,.0f} kernels"
    return finding(
        run,
        cost_s,
        f"The device idles {spent(run, cost_s, ' of each step')}{kernels} "
        f"because the host has not launched the next one{_next(seen)}.",
        levers=() if run.compiled else ("compile",),
    )


def _next(seen: OperatorWindow) -> str:
    """Whose kernels it waits for most, where a trace tells."""
    most = list(seen.held_up.get(IdleReason.CALLS, {}))[:3]
    return f", most often of {', '.join(most)}" if most else ""

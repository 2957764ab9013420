"""launch-bound: the step is made of so many small operators that calling them costs more than what they compute.

What it says: this part of each step goes into calling the model's operators (Python, dispatch, autograd; on a GPU:
launching kernels), not into their arithmetic. On a CPU also: into operators that are called again and again and
take far longer than one core would for all that they compute.
Why it is bad: a call costs microseconds whatever its size, so the processor is busy with handing out work.
Example: a recurrent net written as a Python loop over time, with a few small operators in each turn; an `nn.LSTM` that
is called for each moment, and prepares its weights each time, where one call takes the whole sequence.
Risk: compiled code rounds differently, and is compiled again for new shapes; CUDA graphs overwrite an earlier output.

Before:

    model = Net()

After:

    model = torch.compile(Net())  # on a GPU: mode="reduce-overhead" replays CUDA graphs
"""

from collections.abc import Iterator
from dataclasses import replace

from hotlap.record import Finding, HotLine, IdleReason, Machine, Phase, Run
from hotlap.rules.step import (
    Parts,
    at_lines,
    chosen,
    finding,
    launch_s,
    model_levers,
    named,
    on_one_core_s,
    parts,
    served,
)
from hotlap.units import duration

# On a GPU, XProf calls kernel launch a problem from 15% of the step on (3% is a note).
MIN_SHARE_ON_DEVICE = 0.15

# On a CPU, ours: there calls and arithmetic add up, and a small but sound network (a few layers, a batch of 64) spends
# a fifth to a third of its step on calls. From this share on a step could be half as long if calls were free.
MIN_SHARE = 0.40

# What fills a mask element by element is no layer of such a network: XProf's share holds.
MIN_SHARE_OF_CONSTANTS = MIN_SHARE_ON_DEVICE
# Ours: so many calls on a line are more than a network makes that is not trained (a teacher, a frozen backbone;
# ResNet-18 makes about 60).
_MANY_ON_A_LINE = 100

_MODEL = (Phase.FORWARD, Phase.BACKWARD, Phase.OTHER)

# Ours: so many calls of one operator in a step make a loop; layers that are called as often compute enough to be told.
_MANY = 16

_RECURRENT = frozenset({"aten::gru", "aten::lstm", "aten::rnn_relu", "aten::rnn_tanh"})

# Ours: of the time within operators, the part that must be in those of many calls: else one slow operator may be it.
_MOST = 0.5

# Calls of models in a step from which on the script itself loops over them.
_LOOP = 8


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """Calls of the model's operators; those of optimizers are told by optimizer-bound."""
    return _on_cpu(run) if run.on_cpu else _on_device(run)


def calls_s(run: Run) -> float | None:
    """Seconds of a step on the CPU that calls of the model's operators cost as such; None where none was looked at."""
    divided = _divided(run)
    return sum(part.calls_s for part in divided) if divided else None


def _divided(run: Run) -> list[Parts]:
    return [found for phase in _MODEL if (found := parts(run, phase)) is not None]


def _on_cpu(run: Run) -> Finding | None:
    cost_s, arithmetic_s = calls_s(run), sum(part.arithmetic_s for part in _divided(run))
    if cost_s is None:
        return None
    if run.share_of(cost_s) < MIN_SHARE or cost_s < arithmetic_s:
        return _of_constants(run) or _in_many_small(run, cost_s + arithmetic_s)
    return finding(
        run,
        cost_s,
        f"{_calls(run)}, which cost {run.with_share(cost_s, ' of it')} beside "
        f"{duration(arithmetic_s)} of arithmetic{_constant(run)}{_line(run, cost_s)}.",
        levers=chosen(model_levers(run)),
        at_most_s=_in_loops_s(run),
    )


def _in_many_small(run: Run, within_s: float) -> Finding | None:
    """Operators that take longer than a call, and much longer than what they compute: what each of them prepares is no
    arithmetic."""
    seen, computed_s = run.operators, on_one_core_s(run)
    if seen is None or computed_s is None:
        return None
    # Where others take the cores, everything takes longer.
    computed_s /= served(run)
    cost_s = within_s - computed_s
    all_s = sum(one.self_s for one in seen.operators)
    many = [one for one in seen.operators if one.per_step >= _MANY]
    if run.share_of(cost_s) < MIN_SHARE or cost_s < computed_s or sum(one.self_s for one in many) < _MOST * all_s:
        return None
    most = max(many, key=lambda one: one.self_s, default=None)
    most_named = "" if most is None else f", {most.per_step:,.0f} of them of {most.name}"
    return finding(
        run,
        cost_s,
        f"{_calls(run)}{most_named}. They take {duration(within_s)} of it; one core needs {duration(computed_s)} at "
        f"most for what they compute, so {run.with_share(cost_s)} goes into calling them"
        f"{at_lines(_lines(run), cost_s)}.",
        levers=chosen(model_levers(run)),
    )


def _calls(run: Run) -> str:
    number = sum(run.calls_in(phase).calls for phase in (Phase.FORWARD, Phase.BACKWARD)) + _in_functions(run)
    return f"Each step makes {number:,.0f} calls of operators in the model"


def _in_functions(run: Run) -> float:
    """Those of a loss, or of a model, that is written as functions."""
    return run.calls_in(Phase.OTHER).graph_calls


def _of_constants(run: Run) -> Finding | None:
    """A mask or a table that is filled in a loop in each forward pass: no layer of a sound network, however small."""
    divided, number, seen = parts(run, Phase.FORWARD), _num_constant(run), run.calls_in(Phase.FORWARD)
    if divided is None or not number:
        return None
    if max(seen.line_calls.values(), default=0.0) < _MANY_ON_A_LINE:
        return None
    cost_s = divided.calls_s * number / seen.calls
    if run.hot_lines:  # no longer than these lines were met: to fill an element takes less than to call a module
        loops = [line for line in _lines(run) if _num_calls(run, line) >= _MANY_ON_A_LINE]
        cost_s = min(cost_s, sum(min(line.step_s, _with_calls(run, line).step_s) for line in loops))
    if run.share_of(cost_s) < MIN_SHARE_OF_CONSTANTS:
        return None
    return finding(
        run,
        cost_s,
        f"{_calls(run)}{_constant(run)}: to call them costs {run.with_share(cost_s, ' of it')}{_line(run, cost_s)}.",
        levers=chosen(model_levers(run)),
    )


def _constant(run: Run) -> str:
    """A clause about them."""
    number = _num_constant(run)
    told = f"; {number:,.0f} of them take no part in gradients, and what they make the same each time can be made once"
    return told if number else ""


def _num_constant(run: Run) -> float:
    """Calls of the forward pass on tensors without gradients, where they are most of it; else 0."""
    seen = run.calls_in(Phase.FORWARD)
    number = seen.calls - seen.graph_calls
    return number if number > _MOST * seen.calls else 0.0


def _line(run: Run, cost_s: float) -> str:
    return at_lines((_with_calls(run, line) for line in _lines(run)), cost_s)


def _in_loops_s(run: Run) -> float:
    """Seconds of a step, the backward pass included, in lines of the forward pass that make so many calls that they are
    in a loop. One call for all takes what they compute with it: pairs of fields, one by one, were 15 times as slow as
    one product, with six tenths of their time in calls. Of a recurrent layer that is one call already, none: its loop
    is torch's."""
    seen, window = run.calls_in(Phase.FORWARD), run.operators.operators if run.operators is not None else ()
    if any(one.name in _RECURRENT and one.per_step < _MANY for one in window):
        return 0.0
    many = sum(number for number in seen.line_calls.values() if number >= _MANY_ON_A_LINE)
    passes_s = sum(run.mean_phase_s(phase) or 0.0 for phase in (Phase.FORWARD, Phase.BACKWARD))
    return passes_s * many / max(1.0, seen.calls)


def _lines(run: Run) -> Iterator[HotLine]:
    """The script's own in the forward pass, costliest first; where it calls a model again and again, those that do as
    well; where a loss, or a backward pass that is written by hand, makes more of the calls, its lines."""
    loops = bool(run.num_forwards) and sum(run.num_forwards) >= _LOOP * len(run.num_forwards)
    inside = [line for line in run.hot_lines if line.phase is Phase.BACKWARD and line.inside]
    number = {
        Phase.FORWARD: run.calls_in(Phase.FORWARD).calls,
        Phase.BACKWARD: sum(_num_calls(run, line) for line in inside),
        Phase.OTHER: _in_functions(run),
    }
    phase = max(number, key=lambda phase: number[phase])
    return (line for line in run.hot_lines if line.phase is phase and (line.inside or loops))


def _with_calls(run: Run, line: HotLine) -> HotLine:
    """With what its calls as such take, where they were counted: few long operators make no step launch-bound."""
    seen, divided = run.calls_in(line.phase), parts(run, line.phase)
    if divided is None or not seen.line_calls:
        return line
    return replace(line, step_s=divided.calls_s * _num_calls(run, line) / seen.calls)


def _num_calls(run: Run, line: HotLine) -> float:
    return run.calls_in(line.phase).line_calls.get(f"{line.path}:{line.line}", 0.0)


def _on_device(run: Run) -> Finding | None:
    cost_s, seen = launch_s(run), run.operators
    if cost_s is None or seen is None or run.share_of(cost_s) < MIN_SHARE_ON_DEVICE:
        return None
    kernels = "" if seen.num_kernels is None else f" between {seen.num_kernels:,.0f} kernels"
    return finding(
        run,
        cost_s,
        f"The device idles {run.with_share(cost_s, ' of each step')}{kernels} "
        f"because the host has not launched the next one{named(seen, IdleReason.CALLS)}.",
        levers=() if run.compiled else ("compile",),
    )

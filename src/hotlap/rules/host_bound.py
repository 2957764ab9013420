"""host-bound: the script's own Python takes a large part of the step.

What it says: this part of each step passes neither in the loader, nor in operators of the model, nor in the optimizer:
Python between the phases, or in the middle of a forward or backward pass (hooks, a loss computed in a loop), and
operators that no gradient goes through (noise, masks, metrics). Where most of it passes in a library that the script's
lines call (a trainer, metrics), that library is named. Beside other threads of the process it may be waiting for them
(a queue that a thread fills), so no bound is told. The bound is with all that the line calls which takes most of it:
operators go with it. In the trace of a GPU: it idles while the host does more than launch the next kernel, in Python or
in operators.
Why it is bad: logging, metrics and bookkeeping in Python run while nothing trains.
Example: a confusion matrix updated with Python loops after each batch.
Risk: it depends on the change: `hotlap check before.py after.py` compares the training before and after it.

Before:

    for x, y in loader:
        out = train_step(x, y)
        for guess, label in zip(out.argmax(1), y):
            confusion[label, guess] += 1

After:

    for x, y in loader:
        out = train_step(x, y)
        at = y * num_classes + out.argmax(1)
        confusion += torch.bincount(at, minlength=num_classes**2).view(num_classes, num_classes)
"""

from dataclasses import replace
from itertools import accumulate
from statistics import median

from hotlap.record import Finding, HotLine, IdleReason, Machine, Phase, Run, growth
from hotlap.rules.step import (
    at_lines,
    at_pace,
    device_s,
    finding,
    held_up_s,
    hottest,
    in_python,
    named,
    parts,
    python_s,
    served,
)
from hotlap.units import duration

# XProf highlights host time outside of the input from 3% and calls it critical from 15% on; TraceML's residual warns at
# 10%. On a CPU the script's own lines are cheap to see and rarely worth a finding below a tenth.
MIN_SHARE = 0.10

# Within the model Python is told from the calls of operators by an estimate of their price (step.CALL_PRICE), so a
# small difference there says nothing. Ours: a sound convolutional net on a machine that others used as well came out
# with 24% (benchmarks/diagnosis), hooks that were planted with 70%.
MIN_SHARE_IN_MODEL = 0.30


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """Time that belongs to no other phase, or to no operator within the model."""
    outside_s, (inside_s, lines) = _outside(run), _inside(run)
    cost_s = outside_s + inside_s
    if run.share_of(cost_s) < MIN_SHARE:
        return None
    lines = [*in_python(run, Phase.OTHER), *lines]
    where = f", {duration(inside_s)} of it within the model" if inside_s else ""
    called_s = min(outside_s, held_up_s(run, Phase.OTHER))  # noise, metrics, statistics of weights
    where += f", {duration(called_s)} of it in operators that it calls" if called_s >= _LEAST_PART * cost_s else ""
    spent_in = Phase.OTHER if outside_s > inside_s else Phase.FORWARD
    where += _seldom(run) if outside_s > inside_s else ""
    where += _growing(run, spent_in)
    waits = run.cpu is not None and run.cpu.has_threads
    whose = _whose(run, lines) + (
        ", or waits for other threads of the process, which compute meanwhile" if waits else ""
    )
    # Operators of the script's own are no Python.
    does = "what the script does beside its model" if called_s > cost_s / 2 else whose
    told = _idled(run, cost_s, whose) or f"Each step spends {run.with_share(cost_s, ' of it')} in {does}{where}"
    place = at_lines(lines, cost_s)
    if not place or not run.on_cpu:
        return finding(run, cost_s, f"{told}{place}.")
    line = hottest(lines)[0]
    whole_s = next(one.step_s for one in run.hot_lines if replace(one, step_s=line.step_s) == line)
    # Who fixes the line may do without all that it calls: of one that drew an action for each state, operators were
    # half, and one draw for all was 2.15x faster where Python alone promised 1.54x at most.
    called_s = whole_s - min(cost_s, line.step_s)
    place += f" ({duration(whole_s)} with all that it calls)" if called_s >= _LEAST_PART * cost_s else ""
    return finding(run, cost_s, f"{told}{place}.", at_most_s=cost_s + called_s)


def spent_s(run: Run) -> tuple[float, float]:
    """Seconds of Python in a step: between the phases, and within forward and backward passes."""
    return _outside(run), _inside(run)[0]


def _idled(run: Run, cost_s: float, whose: str) -> str | None:
    """By a trace, which tells Python from operators on the host; None without one."""
    seen = run.operators
    if seen is None or not seen.idle_s:
        return None
    # Of ranks only what all of them have is told (straggler.in_common), and the trace is of one.
    told_s = sum(seen.idle_s.get(reason, 0.0) for reason in _MEANWHILE)
    part = min(1.0, cost_s / told_s) if told_s else 1.0
    parts = (
        f"{duration(part * seen.idle_s[reason])} {where.format(whose)}{named(seen, reason)}"
        for reason, where in _MEANWHILE.items()
        if seen.idle_s.get(reason, 0.0) >= _LEAST_PART * cost_s
    )
    return (
        f"The device idles {run.with_share(cost_s, ' of each step')} while the host does more "
        f"than launch the next kernel: {', '.join(parts)}"
    )


def _whose(run: Run, lines: list[HotLine]) -> str:
    """A library's, where the script's lines spend that time in it; where no line was seen, of a training whose every
    call of a model is a library's (`trainer.train()`)."""
    spent_s: dict[str, float] = {}
    for line in lines:
        spent_s[line.library] = spent_s.get(line.library, 0.0) + line.step_s
    if any(spent_s.values()):
        most = max(spent_s, key=lambda name: spent_s[name] if name else 0.0)
        part = spent_s[most] / sum(spent_s.values()) if most else 0.0
        return _OWN if part < _SOME else f"Python of {most}{' and the script' if part < _MOST else ''}"
    through = {str(site.detail.get("through", "")) for site in run.call_sites if site.calls == "forward"}
    packages = {name.partition(".")[0] for name in through}
    return f"Python of {packages.pop()} and the script" if len(packages) == 1 and all(packages) else _OWN


_OWN = "the script's own Python"
_MEANWHILE = {
    IdleReason.PYTHON: "in {}",
    IdleReason.OPERATORS: "in operators on the host",
    IdleReason.ALLOCATION: "allocating and freeing memory",
}
# Less than this part of it is not worth a clause.
_LEAST_PART = 0.1
# Ours: so much of it in so few steps is no matter of each step. On a busy machine steps differ by less.
_MOST, _SELDOM = 0.75, 0.1
# Ours: of a library that has less than this of it nobody would look into.
_SOME = 0.25


def _seldom(run: Run) -> str:
    """ ", most of it in 3 of 200 steps": what is done once in a while, as a checkpoint; nothing where most steps have
    some, or where others took the cores: short steps wait for one now and then (5 of 200 had most of it)."""
    if run.cpu is not None and run.cpu.disturbed:
        return ""
    steps_s = run.phase_s.get(Phase.OTHER) or ()
    most_s = _MOST * sum(steps_s)
    number = 1 + sum(so_far_s < most_s for so_far_s in accumulate(sorted(steps_s, reverse=True)))
    is_seldom = most_s > 0 and number <= _SELDOM * len(steps_s)
    return f", most of it in {number} of {len(steps_s)} steps" if is_seldom else ""


def _growing(run: Run, phase: Phase) -> str:
    """ ", while other grows from 5.00 ms to 60.0 ms": what is done for all steps so far; nothing where it stays."""
    grown = growth(run, run.phase_s.get(phase) or ())
    return f", while {phase.value} grows from {duration(grown[0])} to {duration(grown[1])}" if grown is not None else ""


def _outside(run: Run) -> float:
    divided = parts(run, Phase.OTHER)
    if divided is not None:
        of_operators_s = sum(line.step_s - python_s(run, line) for line in run.hot_lines if line.phase is Phase.OTHER)
        left_s = (run.mean_phase_s(Phase.OTHER) or 0.0) - of_operators_s
        return max(0.0, min(divided.python_s - _waited_s(run), left_s))
    if run.share(Phase.FORWARD) is None:
        return 0.0  # the model was never called as a module: its arithmetic is hidden in "other"
    if run.on_cpu:
        # No operator was seen (steps so long that the run was over first). What is written as functions takes about as
        # long forward as backward, and no module shows it.
        in_functions_s = (run.mean_phase_s(Phase.BACKWARD) or 0.0) - (run.mean_phase_s(Phase.FORWARD) or 0.0)
        return max(0.0, (run.mean_phase_s(Phase.OTHER) or 0.0) - max(0.0, in_functions_s))
    # With a device, as far as it comes to the end of its queue meanwhile.
    idled_s = device_s(run, Phase.OTHER)
    outside_s = run.mean_phase_s(Phase.OTHER) or 0.0
    return outside_s if idled_s is None else min(outside_s, idled_s)


def _waited_s(run: Run) -> float:
    """Of the phase between the others, for a core that other programs had: they take a few steps some milliseconds. No
    more than their part of it, nor than what it is longer than its median comes to at that pace. (A sound training that
    had a core half of the time had 12% of its step in "Python", of which 4% were more than its part of such waits.)"""
    steps_s, mean_s = run.phase_s.get(Phase.OTHER), run.mean_phase_s(Phase.OTHER) or 0.0
    if not steps_s or (run.cpu is not None and run.cpu.has_threads):
        return 0.0
    return max(0.0, min((1 - served(run)) * mean_s, mean_s - median(steps_s) / served(run)))


def _inside(run: Run) -> tuple[float, list[HotLine]]:
    """Python in forward and backward passes, and its lines; only on the CPU, where an operator returns when it has
    computed. Where little of a model is Python, only that of lines which call no operator counts: no price of a call
    looks like that, and no wait of threads."""
    if not run.on_cpu or run.compiled:
        return 0.0, []
    within_s = sum(_python_within(run, phase) for phase in (Phase.FORWARD, Phase.BACKWARD))
    if run.share_of(within_s) >= MIN_SHARE_IN_MODEL:
        return within_s, in_python(run, Phase.FORWARD, Phase.BACKWARD)
    called = run.calls_in(Phase.FORWARD).line_calls
    lines = [one for one in in_python(run, Phase.FORWARD) if called and f"{one.path}:{one.line}" not in called]
    return min(within_s, sum(line.step_s for line in lines)), lines


def _python_within(run: Run, phase: Phase) -> float:
    """What lies in no operator, as far as code of the script's was met there: a backward pass without hooks, or a
    module of a library's, runs none."""
    divided = parts(run, phase)
    if divided is None:
        return 0.0
    # The memory of large temporaries may cost when it goes, which is no Python. Where a block is the
    # system's own (glibc's malloc from 128 KiB to 32 MiB on), its pages are taken back at once. Ours: up to as long as
    # operators took to fill them; 2.9 ms beside 3.7 ms were seen for temporaries of 8 MB.
    rest_s = max(0.0, divided.python_s - at_pace(run, phase, run.calls_in(phase).streaming_s))
    if not run.hot_lines:
        # Where others take the cores, what is in no operator may be a wait for one of them.
        return 0.0 if run.cpu is not None and run.cpu.disturbed else rest_s
    met_s = sum(python_s(run, line) for line in run.hot_lines if line.phase is phase and line.inside)
    return min(rest_s, met_s)

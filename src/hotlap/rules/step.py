"""What rules have in common: how a step's time divides, and how a finding is put."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import median

from hotlap.record import Finding, HotLine, IdleReason, OperatorWindow, Phase, Run, Sighting, SightingKind
from hotlap.rules.change import Change, file_name
from hotlap.units import duration

# What a call costs in a training, in calls of a tiny operator in a loop: beside the call itself the module or the
# autograd node around it, and the Python line. 2.2 forward and 1.1 backward were seen on a recurrent net written as a
# loop (benchmarks/diagnosis, launch_recurrent, two cores); above three, somebody computes in Python.
CALL_PRICE = 3.0

# What one core does without help, so that an estimate by it is a cautious one: operations, bytes through its caches.
_FLOPS = 10e9
_BYTES_PER_S = 5e9

# Ours: work in vain (a small mask, a metric module on a few numbers) that takes less of a step is no matter of speed.
MIN_IN_VAIN = 0.05

# Ours: a line that takes less of it than this is not where to look.
_NAMED_SHARE = 0.10

# Ours: a line with less of what its function takes is one of several to look at.
_MOST_OF_IT = 0.5

# Of what held the device up, so many are named in a sentence.
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class Parts:
    """A phase's seconds a step: arithmetic of operators, the calls as such, and Python in between."""

    arithmetic_s: float
    calls_s: float
    python_s: float


def num_steps(run: Run) -> int:
    """Steps that were recorded: of a run that was followed to its end, more than are kept."""
    return len(run.step_s) if run.long is None else run.long.num_steps


def validation_s(run: Run) -> float:
    """Seconds of validations between steps, for each step; 0 without a step."""
    return run.validation_s / num_steps(run) if run.step_s else 0.0


def evaluation_s(run: Run) -> float:
    """Seconds a step of forward passes in evaluation mode that are a part of steps, because most steps have some."""
    return 0.0 if run.num_validations > 1 else min(run.mean_step_s(), cost_of(sightings(run, SightingKind.EVALUATION)))


def finding(
    run: Run,
    cost_s: float,
    evidence: str,
    *,
    levers: tuple[str, ...] = (),
    change: Change | None = None,
    environment: Mapping[str, str] | None = None,
    at_most_s: float = 0.0,
    all_s: float | None = None,
) -> Finding:
    """With the share that `cost_s` is of a step; a cost above the step (an estimate) is cut down to it. Code that
    cannot stand where it would have to is left out, its place is told. `rules.ALL` gives it the code of its rule.

    Arguments:
        at_most_s: seconds of a step that may go with the cause, where it is more than that costs.
        all_s: of a cost that lies between steps: mean seconds of a step and of what follows it up to the next.
    """
    whole_s, change = run.mean_step_s() if all_s is None else all_s, change or Change()
    cost_s = min(max(cost_s, 0.0), whole_s)
    return Finding(
        code="",
        cost_s=cost_s,
        share=cost_s / whole_s if whole_s > 0 else 0.0,
        evidence=evidence,
        at_most_share=run.share_of(at_most_s),
        between_steps=all_s is not None,
        try_levers=levers,
        environment=environment or {},
        where=change.where,
        before=change.before,
        after=change.after if change.after and change.can_stand(run) else "",
    )


def sightings(run: Run, kind: SightingKind) -> list[Sighting]:
    """Sightings of that kind, costliest first."""
    return sorted((one for one in run.sightings if one.kind is kind), key=lambda one: -(one.cost_s or 0.0))


def cost_of(seen: Iterable[Sighting]) -> float:
    """Seconds a step of all of them."""
    return sum(one.cost_s or 0.0 for one in seen)


def in_vain(run: Run, kind: SightingKind) -> tuple[Sighting, float] | None:
    """(the costliest of the line with most of it, seconds of a recorded step for all) of operators that were seen one
    by one, each in a phase: no larger part of it than of the time in all its operators, whatever held these up. None
    below `MIN_IN_VAIN` of a step.
    """
    seen = sightings(run, kind)
    phase_cost_s: dict[Phase, float] = defaultdict(float)
    line_cost_s: dict[tuple[str | None, int | None], float] = defaultdict(float)
    for one in seen:
        phase_cost_s[Phase(str(one.detail["phase"]))] += one.cost_s or 0.0
        line_cost_s[one.path, one.line] += one.cost_s or 0.0
    cost_s = sum(
        min(at_pace(run, phase, seen_s), (run.mean_phase_s(phase) or 0.0) * seen_s / max(seen_s, inside_s))
        for phase, seen_s in phase_cost_s.items()
        if seen_s
        for inside_s in [run.calls_in(phase).inside_s]
    )
    if run.share_of(cost_s) < MIN_IN_VAIN:
        return None
    return max(seen, key=lambda one: line_cost_s[one.path, one.line]), cost_s


def device_s(run: Run, phase: Phase) -> float | None:
    """Mean seconds that the device's stream spends in `phase`; None without a device, or where that was not seen.

    In INPUT it only waits for the host: loading that is hidden behind kernels in the queue takes none of its time.
    """
    parts = run.device_phase_s.get(phase)
    return sum(parts) / len(parts) if parts else None


def phase_s(run: Run, phase: Phase) -> float | None:
    """Mean seconds a step in `phase`: of the device's stream where there is one, else of the host; None if unknown."""
    on_device = device_s(run, phase)
    return run.mean_phase_s(phase) if on_device is None else on_device


def idle_s(run: Run) -> float | None:
    """Seconds of a step in which the device does nothing; None where no profiler saw what it does.

    Its busy time is the profiler's, the step is not: under a profiler the host launches more slowly.
    """
    seen = run.operators
    if seen is None or not seen.complete or seen.device_busy_s is None:
        return None
    return max(0.0, run.mean_step_s() - seen.device_busy_s)


def launch_s(run: Run) -> float | None:
    """Seconds of a step in which the device idles because the host has not launched yet; None where that is unknown.

    What it waits for input, for the script's Python, for copies and behind synchronising calls is not counted. While
    the host waits there, the device mostly works: by its own clock it idles for less than that.
    """
    idle, seen = idle_s(run), run.operators
    if idle is None or seen is None:
        return None
    told = [device_s(run, phase) for phase in (Phase.INPUT, Phase.OTHER)]
    waits_s = device_s(run, Phase.SYNC)
    copies_s = max(0.0, (device_s(run, Phase.TRANSFER) or 0.0) - (seen.copy_exposed_s or 0.0))
    explained_s = sum(part or 0.0 for part in told) + (waited_s(run) if waits_s is None else waits_s + copies_s)
    return max(0.0, idle - explained_s)


def transfer_s(run: Run) -> float | None:
    """Seconds of a step in which the device does nothing but copy, or waits until the host has made a copy ready; None
    where that is unknown."""
    seen, on_device = run.operators, device_s(run, Phase.TRANSFER)
    exposed_s = seen.copy_exposed_s if seen is not None and seen.complete else None
    return max((part for part in (exposed_s, on_device) if part is not None), default=None)


def on_one_core_s(run: Run) -> float | None:
    """Seconds that one core takes at most for the operations of a step and the bytes that they move, calls left out;
    None where not all operations were counted."""
    seen = run.operators
    if seen is None or seen.flops is None or seen.moved_bytes is None:
        return None
    return seen.flops / _FLOPS + seen.moved_bytes / _BYTES_PER_S


def named(seen: OperatorWindow, reason: IdleReason) -> str:
    """ " (aten::mul 1.20 ms, aten::add 310 us)": where the device waited most for it, if a trace tells."""
    most = list(seen.held_up.get(reason, {}).items())[:_MOST_NAMED]
    return f" ({', '.join(f'{name} {duration(seconds)}' for name, seconds in most)})" if most else ""


def waited_s(run: Run) -> float:
    """Seconds of a step in which the host waits for the device, by the calls that were priced or by its phase."""
    return max(cost_of(sightings(run, SightingKind.SYNC)), run.mean_phase_s(Phase.SYNC) or 0.0)


def chosen(told: Mapping[str, bool]) -> tuple[str, ...]:
    """Of these names those that are told to be so, in their order."""
    return tuple(name for name, is_so in told.items() if is_so)


def model_levers(run: Run) -> Mapping[str, bool]:
    """What computes the model itself sooner, without other numbers: for sequences seen to be packed, and for all."""
    seen = run.operators.operators if run.on_cpu and run.operators is not None else ()
    packed = any(one.name == "aten::_pack_padded_sequence" for one in seen)
    return {"padded-recurrent": packed, "compile": not run.compiled}


def parts(run: Run, phase: Phase) -> Parts | None:
    """How the phase divides; None where it was not measured, or no operator was looked at.

    In `Phase.OTHER` only the operators of the model count: a loss that is written as functions stands there. What the
    script computes beside (metrics) is Python's, operators or not.
    """
    spent_s = run.mean_phase_s(phase)
    if spent_s is None or run.calls is None:
        return None
    seen = run.calls_in(phase)
    ours = phase is Phase.OTHER
    longer = longer_than_seen(run, phase)
    arithmetic_s = at_pace(run, phase, seen.graph_s if ours else seen.arithmetic_s)
    calls = seen.graph_calls if ours else seen.calls
    # The price is that of calls that nobody held up.
    calls_s = min(spent_s - arithmetic_s, longer * CALL_PRICE * calls * run.calls.call_s / served(run))
    # Threads that share their cores wait for each other within operators: that is not Python either.
    known_s = max(arithmetic_s + calls_s, at_pace(run, phase, seen.graph_inside_s if ours else seen.inside_s))
    # A validation within steps is in few of those whose operators are seen.
    if phase is Phase.FORWARD:
        known_s = min(spent_s, known_s + evaluation_s(run))
    return Parts(arithmetic_s=arithmetic_s, calls_s=calls_s, python_s=spent_s - known_s)


def operators_s(run: Run, *phases: Phase, waits: bool) -> float:
    """Seconds of a step that operators compute in these phases; all of a phase where no operator was looked at.
    `waits`: with what they waited for a core and memory, which is all but their calls and Python."""
    total_s = 0.0
    for phase in phases:
        known, spent_s = parts(run, phase), phase_s(run, phase) or 0.0
        if known is not None:
            spent_s = (run.mean_phase_s(phase) or 0.0) - known.calls_s - known.python_s if waits else known.arithmetic_s
        total_s += spent_s
    return total_s


def longer_than_seen(run: Run, phase: Phase) -> float:
    """How many times as long the phase took in the recorded steps as in those next to which its operators were seen.

    Others may use the machine in one of the two and not in the other; that makes everything longer, and must not look
    like Python. Medians: what happens in few steps only (a checkpoint) is not the operators'.
    """
    recorded = run.phase_s.get(phase)
    plain_s = run.calls.plain_s.get(phase) if run.calls is not None else None
    return median(recorded) / plain_s if recorded and plain_s else 1.0


def served(run: Run) -> float:
    """Part of the time in which training wanted a core and had one; 1 where that is not known, or others took none."""
    return (run.cpu.served if run.cpu is not None else None) or 1.0


def at_pace(run: Run, phase: Phase, seen_s: float) -> float:
    """Seconds of a recorded step for what was seen to take `seen_s` of this phase: at most all of the phase."""
    return min(run.mean_phase_s(phase) or 0.0, longer_than_seen(run, phase) * seen_s)


def without_gradients_s(run: Run, phase: Phase) -> float:
    """Seconds of a step in operators of this phase that take part in no gradient: of the forward pass what is frozen,
    elsewhere the script's own."""
    seen = run.calls_in(phase)
    return at_pace(run, phase, seen.arithmetic_s - seen.graph_s)


def held_up_s(run: Run, phase: Phase) -> float:
    """The same with what held these operators up: others on their cores."""
    seen = run.calls_in(phase)
    return max(without_gradients_s(run, phase), at_pace(run, phase, seen.inside_s - seen.graph_inside_s))


def hottest(lines: Iterable[HotLine]) -> list[HotLine]:
    """Those of the function in which most time is spent, costliest first: a loop may be spread over many lines."""
    functions: dict[tuple[str, str], list[HotLine]] = defaultdict(list)
    for line in lines:
        functions[line.path, line.function].append(line)
    most = max(functions.values(), key=lambda found: sum(one.step_s for one in found), default=[])
    return sorted(most, key=lambda one: -one.step_s)


def in_python(run: Run, *phases: Phase) -> list[HotLine]:
    """Lines of the script's own code in these phases, each with what it takes beside operators."""
    lines = (line for line in run.hot_lines if line.phase in phases and line.inside)
    return [replace(line, step_s=python_s(run, line)) for line in lines]


def python_s(run: Run, line: HotLine) -> float:
    """Seconds of a step that the line takes beside operators, as far as these were seen."""
    known_s = run.calls_in(line.phase).lines.get(f"{line.path}:{line.line}", 0.0)
    return max(0.0, line.step_s - longer_than_seen(run, line.phase) * known_s)


def at_lines(lines: Iterable[HotLine], cost_s: float) -> str:
    """A clause for a sentence about `cost_s`: the function, and the line, in which most of it is spent; nothing where
    that is hardly any of it."""
    found = hottest(lines)
    all_s = sum(one.step_s for one in found)
    if not found or all_s < _NAMED_SHARE * cost_s:
        return ""
    most, first, last = found[0], min(one.line for one in found), max(one.line for one in found)
    where, text = f"{file_name(most.path)}, {most.function}", most.text.rstrip(",")  # an argument of a call over many
    if most.step_s >= _MOST_OF_IT * all_s:
        return f"; {duration(min(most.step_s, cost_s))} of that in line {most.line} of {where}: {text}"
    # What a line calls may be worth more than what is found to be lost there.
    spent = duration(min(all_s, cost_s))
    return f"; {spent} of that in lines {first} to {last} of {where}, most in line {most.line}: {text}"


def at_sighting(sighting: Sighting) -> str:
    """ " in line 12 of train.py", or nothing."""
    if sighting.path is None or sighting.line is None:
        return ""
    return f" in line {sighting.line} of {file_name(sighting.path)}"

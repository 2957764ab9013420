"""Run -> what was seen besides the phases, as titled rows that every format shows: lines, operators, memory."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from statistics import mean

from hotlap.record import DeviceWork, HotLine, OperatorWindow, Phase, Run, Sighting, Study, Sweep
from hotlap.report.document import Row, Section
from hotlap.report.story import timed
from hotlap.units import between, count, duration, percent, plural, size

# More rows than these are for the JSON; the costliest come first.
MOST_ROWS = 8

# Ours: of a line that takes less of a step nobody wants to know (each call of torch's own LSTM selects its state anew).
_LEAST_SHARE = 0.001


def closer_look(study: Study) -> tuple[Section, ...]:
    """All that was seen of the baseline, in the order in which it helps."""
    return (*details(timed(study)), *sweep(study.sweep))


def details(run: Run | None) -> tuple[Section, ...]:
    """What was seen in one run, in the order in which it helps; nothing for what was not looked at."""
    if run is None:
        return ()
    found = (
        _long(run),
        _input(run),
        _hot_lines(run),
        _sightings(run),
        *_profiled(run),
        *_process(run),
        _ranks(run),
    )
    return tuple(one for one in found if one is not None)


def sweep(found: Sweep | None) -> tuple[Section, ...]:
    """The step at each number of threads, and why it is so; nothing where that was not tried."""
    if found is None or not found.times:
        return ()
    rows = tuple(
        Row(
            plural(one.threads, "thread"),
            f"{duration(one.step_s.mid)} a step (95% interval "
            f"{between(duration(one.step_s.low), duration(one.step_s.high))})",
        )
        for one in found.times
    )
    return (Section(name="detail", title="Threads", lead=" ".join((found.why, *found.notes)).strip(), rows=rows),)


def _detail(title: str, lead: str = "", rows: Iterable[tuple[str, str]] = ()) -> Section | None:
    """One thing that was looked at; rows are what it costs, and what it is. None where there is nothing to tell."""
    told = tuple(Row(cost, what) for cost, what in rows)
    return Section(name="detail", title=title, lead=lead, rows=told) if lead or told else None


def place(path: str, line: int | None, run: Run) -> str:
    """ "train.py:31"; relative to the script's folder where that is shorter."""
    script = next(iter(run.sources), None)
    folder = os.path.dirname(script) if script else ""
    shown = path[len(folder) + 1 :] if folder and path.startswith(f"{folder}/") else path
    return shown if line is None else f"{shown}:{line}"


def _input(run: Run) -> Section | None:
    parts = sorted(((part, cost_s) for part, cost_s in run.input_s.items() if cost_s), key=lambda part: -part[1])
    return _detail("Inside the input", rows=((run.with_share(cost_s), part.words) for part, cost_s in parts))


def _hot_lines(run: Run) -> Section | None:
    ranked = sorted(run.hot_lines, key=lambda line: -line.step_s)[:MOST_ROWS]
    rows = ((run.with_share(line.step_s), _hot_line(line, run)) for line in ranked)
    lead = "Time of a step with what each line calls included." if ranked else ""
    return _detail("Hottest lines of your source", lead=lead, rows=rows)


def _hot_line(line: HotLine, run: Run) -> str:
    # The arithmetic of a pass is torch's, whoever called it.
    within = f", in {line.library}" if line.library and line.phase is Phase.OTHER else ""
    where = f"{place(line.path, line.line, run)} in {line.function} ({line.phase.value}{within})"
    return f"{where}: {line.text}".rstrip(": ")


def _sightings(run: Run) -> Section | None:
    by_line: dict[tuple[object, ...], Sighting] = {}
    for one in run.sightings:
        key = one.kind, one.what, one.path, one.line
        by_line[key] = _both(by_line[key], one) if key in by_line else one
    least_s = _LEAST_SHARE * mean(run.step_s) if run.step_s else 0.0
    told = (one for one in by_line.values() if one.cost_s is None or one.cost_s >= least_s)
    ranked = sorted(told, key=lambda one: -(one.cost_s or 0.0))[:MOST_ROWS]
    return _detail("Seen at lines of your source", rows=(_sighting(one, run) for one in ranked))


def _both(one: Sighting, other: Sighting) -> Sighting:
    """Two calls in one line, as one."""
    cost_s, num_bytes = (
        None if a is None and b is None else (a or 0.0) + (b or 0.0)
        for a, b in ((one.cost_s, other.cost_s), (one.num_bytes, other.num_bytes))
    )
    return replace(one, per_step=one.per_step + other.per_step, cost_s=cost_s, num_bytes=num_bytes)


def _sighting(one: Sighting, run: Run) -> tuple[str, str]:
    costs = (
        f"{count(one.per_step)} x a step" if one.per_step else "",
        "" if one.cost_s is None else duration(one.cost_s),
        "" if one.num_bytes is None else size(one.num_bytes),
    )
    where = "" if one.path is None else f" at {place(one.path, one.line, run)}"
    text = f": {one.text}" if one.text else ""
    return ", ".join(filter(None, costs)) or "not timed", f"{one.kind.value}, {one.what}{where}{text}"


def _device(run: Run) -> Section | None:
    known = {phase: column for phase, column in run.device_phase_s.items() if column}
    if not known or run.device_phase_s == run.phase_s:  # of a trace both are the device's
        return None
    num_steps = len(next(iter(known.values())))
    lead = f"{plural(num_steps, 'step')} by its own clock; in input, sync and other it only waits for the host."
    return _detail("The device", lead=lead, rows=tuple((run.with_share(mean(known[p])), p.value) for p in known))


def _profiled(run: Run) -> Iterator[Section | None]:
    """The steps under a profiler."""
    seen = run.operators
    if seen is None:
        yield _device(run)
        return
    idle = sorted(seen.idle_s.items(), key=lambda item: -item[1])
    waited = ((run.with_share(seconds), f"for {why}{_named(seen, why)}") for why, seconds in idle)
    yield _detail("What the device waited for while it was idle", rows=waited)
    yield _device(run)
    costs = [(one.self_s if one.device_s is None else one.device_s, one) for one in seen.operators]
    costs.sort(key=lambda cost: -cost[0])
    costliest = ((_times(seconds, one.per_step), one.name) for seconds, one in costs[:MOST_ROWS])
    yield _detail("Operators of a step", lead=" ".join(_window_sentences(run, seen)), rows=costliest)
    kernels = ((run.with_share(one.device_s), f"{one.name}, {count(one.per_step)} x") for one in seen.work[:MOST_ROWS])
    yield _detail("Kernels of a step by what they compute", rows=kernels)
    yield _detail("Copies and collectives of a step", rows=map(_hidden, (*seen.copies, *seen.collectives)))


def _named(seen: OperatorWindow, why: str) -> str:
    """In which operators and lines most of it was lost."""
    most = list(seen.held_up.get(why, {}).items())[:4]
    return f": {', '.join(f'{name} {duration(seconds)}' for name, seconds in most)}" if most else ""


def _hidden(one: DeviceWork) -> tuple[str, str]:
    """What it costs, and how much of that kernels hide."""
    moved = f", {size(one.num_bytes)}" if one.num_bytes else ""
    share = percent(one.hidden_s / one.device_s if one.device_s else 0.0)
    return _times(one.device_s, one.per_step), f"{one.name}{moved}: {share} of it beside kernels"


def _times(seconds: float, per_step: float) -> str:
    """ "1.20 ms, 3 x"."""
    return f"{duration(seconds)}, {count(per_step)} x"


def _window_sentences(run: Run, window: OperatorWindow) -> Iterator[str]:
    yield (
        f"{window.num_calls:,.0f} operators a step, seen over {plural(window.num_steps, 'step')} under torch's "
        "profiler (which itself costs time)."
    )
    if window.dispatch_s is not None and window.num_kernels is None:
        least_s = window.dispatch_s * window.num_calls
        yield (
            f"To start them costs at least {duration(least_s)} a step here, {duration(window.dispatch_s)} each: more "
            "with cold caches, and with the operators that they call."
        )
    if window.num_kernels is not None and window.kernel_s is not None:
        yield f"The device ran {window.num_kernels:,.0f} kernels of {duration(window.kernel_s)} each."
    if window.device_busy_s is not None:
        share = min(1.0, run.share_of(window.device_busy_s))
        yield f"It was busy for {duration(window.device_busy_s)}, {percent(share)} of a step."
    if window.copy_s:
        exposed = f", {duration(window.copy_exposed_s)} of it beside no kernel" if window.copy_exposed_s else ""
        yield f"Copies took {duration(window.copy_s)}{exposed}."
    if window.tensor_core_share is not None:
        yield f"{percent(window.tensor_core_share)} of the time of matrix kernels used tensor cores."
    if not window.complete:
        yield f"This window is not complete: {window.why_not or 'no reason was recorded'}."


def _process(run: Run) -> Iterator[Section | None]:
    """What it used and was given, and what it did between its steps."""
    use = run.cpu
    if use is not None:
        lead = f"Training kept {use.main:.2g} of {use.usable_cores:g} usable cores busy"
        lead += f", its workers {use.others:.2g}." if use.others >= 0.05 else "."
        if use.throttled:
            lead += f" For {percent(use.throttled)} of the time the cgroup's quota held it still."
        if use.page_faults:
            number = use.page_faults * run.mean_step_s()
            lead += f" {number:,.0f} page faults a step took about {percent(run.page_faults_share)} of it."
        yield _detail("Processor", lead=lead)
    yield _memory(run)
    if run.num_validations:
        times = "once" if run.num_validations == 1 else f"{run.num_validations:,} times"
        loading = f", {duration(run.validation_input_s)} of it in loaders" if run.validation_input_s else ""
        lead = (
            "Stretches without training (validation, or sampling: forward passes without gradients or in evaluation "
            f"mode) came between steps {times}, and took {duration(run.validation_s)} in all{loading}; that time is in "
            "no step."
        )
        yield _detail("Between steps", lead=lead)


def _memory(run: Run) -> Section | None:
    if len(run.memory) < 2:
        return None
    first, last = run.memory[0], run.memory[-1]
    lead = f"Resident memory went from {size(first.rss_bytes)} at step {first.step:,} to {size(last.rss_bytes)}"
    lead += f" at step {last.step:,}{f', with a peak of {size(run.rss_peak_bytes)}' if run.rss_peak_bytes else ''}."
    if first.device_bytes is not None and last.device_bytes is not None:
        peak = f", at most {size(run.device_peak_bytes)}" if run.device_peak_bytes else ""
        lead += f" Tensors on the device: {size(first.device_bytes)}, then {size(last.device_bytes)}{peak}."
    return _detail("Memory", lead=lead)


def _ranks(run: Run) -> Section | None:
    rows = (
        (
            f"rank {one.rank}, {one.host}",
            f"{duration(one.step_s)} a step, {duration(one.compute_s)} without communication"
            + (f", waits {duration(one.wait_s)} for the slowest" if one.wait_s is not None else "")
            + (f", {duration(one.transfer_s)} for data on their way" if one.transfer_s is not None else ""),
        )
        for one in run.ranks
    )
    return _detail("Processes that train together", rows=rows)


def _long(run: Run) -> Section | None:
    long = run.long
    if long is None or not long.num_steps:
        return None
    lead = (
        f"{plural(long.num_steps, 'step')} in {duration(long.total_s)}: {duration(long.total_s / long.num_steps)} in "
        f"the mean, half of them within {duration(run.median_step_s())}, the longest {duration(long.longest_s)}."
    )
    return _detail("The whole run", lead=lead)

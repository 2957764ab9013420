"""A training command -> one of its steps as a workload, with where and how fast it was measured."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from hotlap.cli import target
from hotlap.cli.workbench import Interrupt, launching
from hotlap.errors import NoSteps, ScriptFailed
from hotlap.machine.look import look
from hotlap.predict import Device, Workload, catalogue
from hotlap.record import Phase, Plan, Run, Status, decode

WARMUP_STEPS = 3
TIMED_STEPS = 8
# From this part of the step on the loader is what it waits for (as the rule input-bound takes it, on the safe side).
INPUT_BOUND_SHARE = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """What was found out about a script."""

    work: Workload
    device: str | Device | None
    """A name, or this processor; None (and no time) where nothing was measured."""
    step_s: float | None
    steps_per_epoch: int | None = None
    run: Run | None = None
    """Its timed steps; None of a saved workload."""


def trace(words: Sequence[str], *, timeout_s: float) -> Traced:
    """Run the command until one step is traced.

    Raises:
        UserError: it cannot be started as it stands.
        ScriptFailed: it failed before a step was traced.
        NoSteps: it made too few steps.
    """
    aim = target.parse(words, command="predict")
    plan = Plan(
        command=aim.command,
        cwd=str(aim.cwd),
        out="",
        warmup=WARMUP_STEPS,
        steps=TIMED_STEPS,
        seed=None,
        profilers=("workload", "cpu"),
    )
    with Interrupt() as interrupt, launching(aim, timeout_s=timeout_s, interrupt=interrupt) as launcher:
        (run,) = launcher([plan], limit_s=timeout_s)
    return Traced(
        work=_workload(run, aim.title),
        device=_here(run.device),
        step_s=run.median_step_s(),
        steps_per_epoch=run.epoch_steps(),
        run=run,
    )


def _workload(run: Run, title: str) -> Workload:
    if run.workload is None or not run.step_s:
        if run.status in (Status.CRASHED, Status.KILLED):
            raise ScriptFailed(f"{title} failed before a step was traced: {run.error}.", output=run.output)
        why = " ".join((f"{run.error[:1].upper()}{run.error[1:]}." if run.error else "", *run.notes)).strip()
        raise NoSteps(
            f"{title} ended before a step was traced: {WARMUP_STEPS} steps to warm up, {TIMED_STEPS} to time and 1 to "
            f"trace are needed. {why}",
            output=run.output,
        )
    work = decode(run.workload.encode(), Workload).validated()
    input_s, workers = _input(run)
    notes = work.notes
    if run.world_size > 1:
        notes += (f"the step was measured with {run.world_size} processes at work, and holds their communication",)
    seen = [number for number in run.num_samples if number]
    batch = round(median(seen)) if seen else None
    return replace(work, name=title, input_s=input_s, input_workers=workers, batch_size=batch, notes=notes)


def _input(run: Run) -> tuple[float | None, int | None]:
    """One worker's seconds for a batch, and the number of workers; None where the input does not matter."""
    parts = run.phase_s.get(Phase.INPUT)
    trained = [loader for loader in run.loaders if loader.trained_on]
    if not parts or not trained:
        return None, None
    workers = trained[0].num_workers
    if not workers:
        return median(parts), 0
    if (run.share(Phase.INPUT) or 0.0) < INPUT_BOUND_SHARE:
        return None, None
    # All workers are busy all the time: together they deliver one batch a step.
    return workers * run.median_step_s(), workers


def _here(name: str) -> str | Device:
    """The device of the run; a CPU is described roughly."""
    if name != "cpu":
        return name
    here = look()
    return catalogue.cpu(here.processor, cores=here.num_cores)

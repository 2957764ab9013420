"""Trial groups on nodes of a cluster: each is a job, which reads what to run and writes what came of it in a
shared folder."""

import contextlib
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from hotlap.errors import RecordError, UserError
from hotlap.launch.streams import last_line
from hotlap.record import Machine, Plan, Run, Status, load, save

ORDER, BEGUN, BROUGHT, JOB, PRINTED = "order.json", "begun", "brought.json", "job", "printed"

# How often the shared folder is looked at, and how often the scheduler is asked: it serves others as well.
_LOOK_S, _ASK_S = 0.2, 3.0
# A file that another node wrote may be seen so much later.
_LATE_S = 60.0
# Beside its runs a job starts Python and ends; and a run that is asked to end may finish a step.
_BESIDE_S = 120.0
# Placed again so often after it was lost to others.
_MOST_LOST = 10
# A scheduler that is started anew, or out of reach, is waited for so long: its jobs run on meanwhile.
_SILENT_S = 900.0


class State(StrEnum):
    """Where a job stands."""

    PLACED = "placed"
    """It waits for a node, or is on one."""
    OVER = "over"
    """It ended, by whatever cause: what it wrote says how it went."""
    LOST = "lost"
    """Others took its node, or the node failed."""
    SILENT = "silent"
    """The scheduler does not answer."""


class Backend(Protocol):
    """A scheduler: one file each."""

    name: str
    one_kind: str
    """What to do where it gave nodes of two kinds: a sentence."""

    def submit(self, command: Sequence[str], folder: Path, *, limit_s: float) -> str:
        """Have `command` run on a node of its own for at most so long; its output goes into `folder`.

        Raises:
            UserError: it is not accepted.
        """
        ...

    def state(self, job: str) -> tuple[State, str]:
        """With the scheduler's own word for it."""
        ...

    def cancel(self, job: str) -> None:
        """Nobody wants it any more."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a node is to do: plans that take turns are alive at the same time, others run one after the other."""

    plans: tuple[Plan, ...] = ()
    folders: tuple[str, ...]
    """The user's, which no run may change."""
    limit_s: float = 0.0
    timeout_s: float
    memory_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Brought:
    """What came of it."""

    machine: Machine
    runs: tuple[Run, ...] = ()
    refused: str | None = None
    """Why nothing could be run: a sentence for the user."""
    not_enclosed: str | None = None
    """Why the user's folders could not be protected there."""


class Placed:
    """Runs trial groups as jobs. A context manager: leaving it cancels what still runs, and nobody else's jobs.

    `folder`: shared by all nodes; what a run of hotlap that was killed left there is cancelled first. `nodes`: trial
    groups at the same time. `order`: what all trial groups have. `now`, `sleep`: a clock in seconds (a fake one in
    tests).

    Raises:
        UserError: the scheduler does not answer.
    """

    def __init__(
        self,
        backend: Backend,
        folder: Path,
        *,
        nodes: int,
        order: Order,
        interrupted: Callable[[], bool] = lambda: False,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._backend = backend
        self._folder = folder
        self.nodes = nodes
        """Trial groups that may run at the same time."""
        self._order = order
        self._interrupted = interrupted
        self._now = now
        self._sleep = sleep
        self._waited_s = 0.0
        self._count = 0
        self._machine: Machine | None = None
        self.not_enclosed: str | None = None
        for left in folder.glob(f"*/{JOB}"):
            backend.cancel(left.read_text(encoding="utf-8"))
        shutil.rmtree(folder, ignore_errors=True)

    def __enter__(self) -> "Placed":
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def now(self) -> float:
        """Seconds in which something ran, or nothing was wanted: what a queue takes is no part of a study's budget."""
        return self._now() - self._waited_s

    def machine(self) -> Machine:
        """What the nodes are.

        Raises:
            UserError: none could be asked.
        """
        if self._machine is None:
            self.many([()], limits_s=[0.0])
        assert self._machine is not None, "each trial group tells of its node"
        return self._machine

    def __call__(self, plans: Sequence[Plan], *, limit_s: float) -> list[Run]:
        """One trial group. (As `hotlap.experiment.Runs`.)"""
        return self.many([plans], limits_s=[limit_s])[0]

    def many(self, trial_groups: Sequence[Sequence[Plan]], *, limits_s: Sequence[float]) -> list[list[Run]]:
        """As `hotlap.experiment.runs.Nodes`. What a job that failed by itself was to run counts as killed.

        Raises:
            UserError: the first of all is refused or brought nothing; or the nodes differ; or the scheduler has been
                silent for long.
            KeyboardInterrupt: the user has interrupted.
        """
        jobs: list[_Job] = []
        try:
            for plans, limit_s in zip(trial_groups, limits_s, strict=True):
                self._count += 1
                order = replace(self._order, plans=tuple(plans), limit_s=limit_s)
                jobs.append(_Job(self._backend, self._folder / f"{self._count:04d}", order))
                if self._machine is None:
                    jobs[-1].submit()  # what is refused now would be later
            self._wait(jobs)
        finally:
            for job in jobs:
                job.close()
        return [self._noted(job) for job in jobs]

    def _wait(self, jobs: "Sequence[_Job]") -> None:
        asked = -_ASK_S
        while not all([job.is_over() for job in jobs]):
            if self._interrupted():
                raise KeyboardInterrupt
            begun = self._now()
            if begun - asked >= _ASK_S:
                asked = begun
                for job in jobs:
                    job.ask(asked)
            self._sleep(_LOOK_S)
            if not any(job.has_begun() for job in jobs):
                self._waited_s += self._now() - begun

    def _noted(self, job: "_Job") -> list[Run]:
        brought = job.brought
        if brought is None:
            if self._machine is None:
                raise UserError(f"{job.failure} Is that folder, and this Python, there on the nodes?")
            return [Run(status=Status.KILLED, error=job.failure) for _ in job.order.plans]
        if brought.refused is not None:
            raise UserError(brought.refused)
        first = self._machine = self._machine or brought.machine
        one, other = _kind(first), _kind(brought.machine)
        if one != other:
            raise UserError(
                f"{self._backend.name} gave nodes of different kinds ({one}; {other}), whose times cannot be compared. "
                f"{self._backend.one_kind}"
            )
        self.not_enclosed = self.not_enclosed or brought.not_enclosed
        return list(brought.runs)


def _kind(machine: Machine) -> str:
    return ", ".join([f"{machine.usable_cores:g} cores of {machine.processor}", *sorted(machine.gpus)])


class _Job:
    """One trial group under way."""

    def __init__(self, backend: Backend, folder: Path, order: Order) -> None:
        self._backend = backend
        self._folder = folder
        self.order = order
        self._limit_s = order.limit_s + order.timeout_s + _BESIDE_S
        self._num_lost = 0
        self._job: str | None = None
        self._state, self._since = State.PLACED, 0.0
        self.brought: Brought | None = None
        self.failure: str | None = None
        """Why it brought nothing."""
        save(order, folder / ORDER)

    def submit(self) -> None:
        """Place it.

        Raises:
            UserError: it is not accepted.
        """
        command = (sys.executable, "-m", "hotlap.cli.node", str(self._folder))
        self._job = self._backend.submit(command, self._folder, limit_s=self._limit_s)
        (self._folder / JOB).write_text(self._job, encoding="utf-8")

    def has_begun(self) -> bool:
        """It is, or was, on a node."""
        return self.is_over() or (self._folder / BEGUN).exists()

    def is_over(self) -> bool:
        """It has brought what it was sent for, or never will."""
        if self.brought is None and (self._folder / BROUGHT).exists():
            # A shared file system may show the name before all that is in it.
            with contextlib.suppress(RecordError):
                self.brought = load(self._folder / BROUGHT, Brought)
        return self.brought is not None or self.failure is not None

    def ask(self, now: float) -> None:
        """Where does it stand? One that was lost is placed again.

        Raises:
            UserError: the scheduler has been silent for long, or has not taken it.
        """
        if self.is_over():
            return
        state, word = (State.LOST, "") if self._job is None else self._backend.state(self._job)
        if state is State.LOST and self._num_lost < _MOST_LOST:
            state, word = self._placed_again()
        if state is not self._state:
            self._state, self._since = state, now
        if state is State.SILENT and now - self._since >= _SILENT_S:
            raise UserError(
                f"{self._backend.name} has taken or answered nothing for {_SILENT_S / 60:.0f} minutes ({word}). When "
                "it does, the same command goes on from here."
            )
        if state in (State.OVER, State.LOST) and now - self._since >= _LATE_S:
            self.failure = (
                f"A job of {self._backend.name} ({self._job}) ended as {word} and wrote nothing into "
                f"{self._folder}.{_said(self._folder)}"
            )

    def _placed_again(self) -> tuple[State, str]:
        """A scheduler that has just been started anew may not take jobs yet."""
        (self._folder / BEGUN).unlink(missing_ok=True)
        known = self._job is not None
        try:
            self.submit()
        except UserError as error:
            return State.SILENT, str(error).rstrip(".")
        self._num_lost += known
        return State.PLACED, ""

    def close(self) -> None:
        """Nobody waits for it any more."""
        if self.brought is None and self._job is not None:
            self._backend.cancel(self._job)
        (self._folder / JOB).unlink(missing_ok=True)


def _said(folder: Path) -> str:
    """The last line of what the job printed."""
    said = ""
    with contextlib.suppress(OSError):
        said = last_line((folder / PRINTED).read_text(encoding="utf-8", errors="replace"))
    return f" It said: {said}" if said else ""

"""Runs one plan, or several at a time that take turns; each gives a Run, whatever happened to it."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

from hotlap.errors import Interrupted
from hotlap.launch.outcome import outcome
from hotlap.launch.reaper import Reaper, end_all, signal_group
from hotlap.launch.scratch import Scratch
from hotlap.launch.starting import Environment, Forked, Process, Starter
from hotlap.launch.streams import StandardInput, Tail, end_of, readable
from hotlap.launch.workplace import Workplace
from hotlap.record import Plan, Run, Status
from hotlap.record.order import rounds
from hotlap.record.progress import WARMING

# How often the parent looks at its children when nothing happens; a child's turn ends by itself, unseen by this.
_LOOK_S = 0.05

# Time for a child that was asked to stop to finish its step and write its record; more where its steps are longer.
_GRACE_S = 10.0
_LONG_STEPS = 2.0


class Launcher:
    """Starts commands under plans. A context manager: leaving it ends every process and removes every file of ours.

    `environment` answers which variables a plan's levers want; `folders` are the user's, which no run may change.
    `timeout_s`: a run that makes no step for so long is ended (Status.HUNG). `interrupted` is asked all the time and
    ends everything with KeyboardInterrupt: the exception of the signal itself may get lost in somebody's callback.
    `templates`: from the second run of a command on, processes may be forks of one that has imported what they import.

    Raises:
        UserError: there is no folder with room for what the commands write.
    """

    def __init__(
        self,
        *,
        environment: Environment,
        folders: Sequence[Path],
        timeout_s: float,
        stdin: StandardInput | None = None,
        interrupted: Callable[[], bool] = lambda: False,
        templates: bool = False,
    ) -> None:
        self._interrupted = interrupted
        self._folders = _outermost(folders)
        self._timeout_s = timeout_s
        self._scratch = Scratch(self._folders)
        self._reaper = Reaper(self._scratch.folder)
        self._stdin = stdin or StandardInput()
        self._starter = Starter(
            environment,
            stdin=self._stdin,
            base=self._scratch.folder,
            templates=templates,
            timeout_s=timeout_s,
            interrupted=interrupted,
        )
        self._alive: list[_Child] = []
        self._numbers = count(1)
        root = any(folder.resolve() == Path(folder.anchor) for folder in folders)
        self.not_enclosed: str | None = "/ itself never can be" if root else None
        """Why the user's folders could not be protected from what the script writes; None while they are."""

    @property
    def why_afresh(self) -> str | None:
        """Why each process makes its imports anew, where they were to be made ahead."""
        return self._starter.why_afresh

    def __enter__(self) -> "Launcher":
        return self

    def __exit__(self, *_: object) -> None:
        """End what still runs, remove what is ours."""
        for child in self._alive:
            child.end()
            child.place.remove()
        self._alive = []
        self._starter.close()
        self._stdin.close()
        self._scratch.close()
        self._reaper.close()

    def __call__(self, plans: Sequence[Plan], *, limit_s: float) -> list[Run]:
        """Run the plans at the same time; those with a turn take turns. (Same order in the answer.)

        After `limit_s` seconds each is asked to end with what it has (Status.LAPSED). Trainings for real
        (`Plan.only_levers`) are not begun where what they write at their end would be written for real.

        Raises:
            UserError: what they wrote leaves no room. Interrupted: by the user; with what each has measured.
        """
        if self.not_enclosed and any(plan.only_levers for plan in plans):
            return [Run(status=Status.SILENT, error="the user's folder cannot be covered") for _ in plans]
        children = self._start(plans)
        try:
            _TrialGroup(children, self._scratch, timeout_s=self._timeout_s, limit_s=limit_s).run(self._interrupted)
        except KeyboardInterrupt:
            for child in children:
                child.status = child.status or Status.LAPSED
                child.end()
            raise Interrupted([child.outcome() for child in children]) from None
        finally:
            for child in children:
                child.end()
        runs = [child.outcome() for child in children]
        for child, run in zip(children, runs, strict=True):
            self.not_enclosed = self.not_enclosed or child.place.not_enclosed() or self._not_known(run)
            self._starter.learn(child.place)
            child.place.remove()
            self._alive.remove(child)
        return runs

    def _not_known(self, run: Run) -> str | None:
        """Why the folder of the script that ran is not covered: a command may go wherever it likes."""
        folder = next((Path(path).parent for path in run.sources), None)
        if folder is None or not self._folders or any(map(folder.is_relative_to, self._folders)):
            return None
        return f"the command does not say that it is {folder}"

    def _start(self, plans: Sequence[Plan]) -> "list[_Child]":
        base, folders = self._scratch.folder, self._folders
        places = [Workplace(plan, base=base, number=next(self._numbers), folders=folders) for plan in plans]
        children = [_Child(*start) for start in zip(places, self._starter.start(places), strict=True)]
        self._alive += children
        return children


def _outermost(folders: Sequence[Path]) -> tuple[str, ...]:
    """Resolved, without those that lie in another one. The root itself cannot be covered and is left out."""
    resolved = sorted({folder.resolve() for folder in folders if folder.is_dir()})
    kept: list[Path] = []
    for folder in resolved:
        if folder != Path(folder.anchor) and not any(folder.is_relative_to(other) for other in kept):
            kept.append(folder)
    return tuple(map(str, kept))


class _Child:
    """One process under a plan."""

    def __init__(self, place: Workplace, process: Process) -> None:
        self.place = place
        self.plan = place.plan
        self.status: Status | None = None
        self.turns = 0
        self.waiting = False
        self.warming = True
        self.asked_at: float | None = None
        self._left_at: float | None = None
        self.process = process
        self._stdout = Tail(process.stdout)
        self._stderr = Tail(process.stderr)
        self._steps = 0
        self._longest_s = 0.0
        self._begun_at = self.moved_at = time.monotonic()
        self.whole_s: float | None = None
        self.handle = end_of(process.pid)
        self.ready_fd = place.fifos[0] if place.fifos else None

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    @property
    def awaited(self) -> list[int]:
        """What can be read when it has finished a turn, or has ended."""
        turn = () if self.waiting or self.ready_fd is None else (self.ready_fd,)
        return [*turn, *(() if self.handle is None else (self.handle,))]

    def look(self, now: float) -> None:
        """Has it made a step since the last look? (Of a training for real that is not known.)"""
        steps = self.place.progress.steps
        if self.plan.only_levers:
            self.moved_at = now
        if steps != self._steps or self.waiting:
            if self._steps and not self.waiting:
                self._longest_s = max(self._longest_s, now - self.moved_at)
            self._steps = steps
            self.moved_at = now

    @property
    def grace_s(self) -> float:
        """How long it may take to end once it was asked: it does so behind a step."""
        return max(_GRACE_S, _LONG_STEPS * self._longest_s)

    def has_left(self, now: float) -> bool:
        """All its processes that train have written their records and wait to be ended; or some of them, long ago."""
        progress = self.place.progress
        if not progress.num_left or not self.alive:
            return False
        self._left_at = self._left_at or now
        return progress.num_left >= progress.processes or now > self._left_at + _GRACE_S

    def finished_turn(self) -> None:
        """It waits now; it and its workers are held still until its next turn."""
        with contextlib.suppress(BlockingIOError):
            self.warming = os.read(self.ready_fd or 0, 16).endswith(WARMING)
        self.waiting = True
        signal_group(self.process.pid, signal.SIGSTOP)

    def go(self) -> None:
        """Its turn."""
        assert self.place.fifos is not None
        self.waiting = False
        self.turns += 1
        self.moved_at = time.monotonic()
        os.write(self.place.fifos[1], b"g")
        signal_group(self.process.pid, signal.SIGCONT)

    def ask_to_stop(self, now: float) -> None:
        """End after the current step, and write the record."""
        self.place.progress.ask_to_stop()
        self.asked_at = now
        if self.waiting:
            self.go()

    def end(self) -> None:
        """No process of it is left, and nothing of what they wrote."""
        if self.whole_s is not None:
            return  # its number may be another process's by now
        whole_s = time.monotonic() - self._begun_at
        end_all(self.process.pid, self.place.marker)
        self.process.wait()
        self.whole_s = whole_s
        if self.handle is not None:
            os.close(self.handle)
        self.place.clear()

    def outcome(self) -> Run:
        found = outcome(
            self.place,
            status=self.status,
            exit_code=self.process.returncode,
            stdout=self._stdout.text(),
            stderr=self._stderr.text(),
        )
        if found.status is Status.ENDED and self.plan.only_levers:
            found = replace(found, whole_s=self.whole_s)
        forked = isinstance(self.process, Forked)
        return replace(found, forked=forked, written=self.place.written, marks=self.place.marks())


class _TrialGroup:
    """The children start together; once all have, they warm up in turns, and then take turns in a balanced order
    (`hotlap.record.order`)."""

    def __init__(self, children: Sequence[_Child], scratch: Scratch, *, timeout_s: float, limit_s: float) -> None:
        self._children = children
        self._scratch = scratch
        self._timeout_s = timeout_s
        self._deadline = time.monotonic() + limit_s
        self._rounds = rounds(len(children), children[0].plan.order_seed) if children else iter(())
        self._order: list[_Child] = []
        self._running: _Child | None = None

    def run(self, interrupted: Callable[[], bool]) -> None:
        """Until no child is left."""
        while any(child.alive for child in self._children):
            if interrupted():
                raise KeyboardInterrupt
            self._await_news()
            now = time.monotonic()
            self._scratch.check()
            for child in self._children:
                self._watch(child, now)
            self._pass_token()
        for child in self._children:
            self._left(child)

    def _await_news(self) -> None:
        ready = readable([fd for child in self._children if child.alive for fd in child.awaited], _LOOK_S)
        for child in self._children:
            if child.ready_fd in ready:
                child.finished_turn()
                if child is self._running:
                    self._running = None

    def _watch(self, child: _Child, now: float) -> None:
        if child.has_left(now):
            child.end()
        if not child.alive:
            self._left(child)
            return
        child.look(now)
        if now > self._deadline and child.asked_at is None:
            child.ask_to_stop(now)
        if child.asked_at is not None and now > child.asked_at + min(child.grace_s, self._timeout_s):
            child.status = Status.LAPSED if child.place.progress.steps else Status.HUNG
            child.end()
        elif now - child.moved_at > self._timeout_s:
            child.status = Status.HUNG
            child.end()

    def _left(self, child: _Child) -> None:
        """It is over. Those that go on do so without what it wrote beside them."""
        if child is self._running:
            self._running = None
        if child.whole_s is None:
            self._scratch.check(now=True)  # it may have failed for want of room
            child.end()

    def _pass_token(self) -> None:
        if self._running is not None:
            return
        takers = [child for child in self._children if child.ready_fd is not None and child.alive]
        if not takers or not all(child.waiting for child in takers):
            # Some still start, and what they import and compile would be timed as the others' first steps. (Beside one
            # that compiled these took 5 s longer: a training of 20 s was told as 1.15x, and takes as long as before.)
            return
        cold = [child for child in takers if child.warming]
        if cold:
            self._running = min(cold, key=lambda child: child.turns)
            self._running.go()
            return
        self._order = [child for child in self._order if child in takers]
        while not self._order:
            self._order = [child for place in next(self._rounds) if (child := self._children[place]) in takers]
        self._running = self._order.pop(0)
        self._running.go()

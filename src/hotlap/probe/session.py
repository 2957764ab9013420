"""One training process under a plan: hooks call it, it ends each step, and it says when all is recorded."""

import contextlib
import gc
import os
import sys
import time
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from hotlap import accelerator
from hotlap.probe import clock as phases
from hotlap.probe import procfs
from hotlap.probe.arms import Arms
from hotlap.probe.clock import Clock, StepSpans
from hotlap.probe.collectives import Collectives
from hotlap.probe.evidence import Perturbation
from hotlap.probe.facts import Facts
from hotlap.probe.graphs import Graphs
from hotlap.probe.guard import Guard
from hotlap.probe.ledger import Ledger, Thinning
from hotlap.probe.losses import Losses
from hotlap.probe.next_part import trains_again
from hotlap.probe.planned import planned_steps
from hotlap.probe.printed import Printed
from hotlap.probe.profilers.device import DeviceClock
from hotlap.probe.schedule import Schedule
from hotlap.probe.script_calls import LOADERS_SEEN_BY, ScriptCalls
from hotlap.probe.shutdown import Shutdown
from hotlap.probe.states import States
from hotlap.probe.steps import StepMarker
from hotlap.probe.thread import TrainingThread
from hotlap.probe.token import Token
from hotlap.probe.windows import Windows
from hotlap.record import Plan, Status
from hotlap.record.progress import STEPS, STOP, Progress
from hotlap.record.spans import SpanRing

# Batches drawn before the first step may have been looked at only; from here on each step draws its own.
_SECOND_STEP = 2

# Between two looks up from the road, for profilers that want to be called: about so long, at most so many steps.
_LOOK_S = 0.05
_MOST_UNSEEN = 256

# Steps of a trial whose events wait to be read, about a kilobyte each. A trial's window is read when it is over, and
# costs the steps in it nothing; a run that shall leave something if it is killed is read as it goes on.
_MOST_UNREAD = 4096

# Under `Plan.whole` profilers get steps of their own once, so long after the first step: in a training that goes on for
# hours these few seconds do not show, and one that is over by then is better measured without `--full`.
_WINDOWS_AFTER_S = 10.0

_MEASURING = "the measurement of steps"
# Without these there are no steps.
_STEPS_NEED = ("update_made", "decide", "turn_page")


class Session:
    """The hooks call it. Everything it does at the end of a step is outside of the measured time.

    What it does for each step is counted in microseconds: a step of a small network takes a hundred of them.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.device_clock = DeviceClock()
        self.clock = Clock(self.device_clock.now) if "device" in plan.profilers else Clock()
        self.thread, self.shutdown = TrainingThread(self.clock), Shutdown(self)
        self.collectives = Collectives(self.clock)
        self.facts = Facts(keeps_data=plan.evidence)
        self.marker, self.graphs = StepMarker(), Graphs(self)
        self.ledger = Ledger(Thinning() if plan.whole else None)
        self.schedule = Schedule(plan)
        self.arms, self.guard = Arms(plan), Guard()
        self.windows = Windows(plan.profilers, self.guard, patience_s=plan.enough_s)
        self.states, self.printed = States(plan.steps), Printed()
        self.must_be_there = self.stop if plan.evidence else None
        """What is done where something failed that the gate compares; else the record lacks it."""
        self.group_made = self.guard(self._group_made, "the processes that train together", off=self.must_be_there)
        """A process group may be there now: who is this process?"""
        self.script = ScriptCalls(self)
        self.losses = Losses(self)
        self.wants_losses = plan.evidence or bool(plan.profilers) or not self.schedule.switches
        """Of steps that are only compared nobody asks for their losses, and to read one takes two microseconds."""
        self.updates_made = self.skipped_updates = 0
        self.steps = 0
        """Steps made so far."""
        self.setup_s: float | None = None
        self.own_start_s = 0.0
        self.num_threads: int | None = None
        self.own_s = 0.0
        """Seconds spent in our own affairs at the ends of steps that were recorded."""
        self.num_recorded = 0
        self.out = Path(plan.out)
        self._progress = Progress(self.out / "progress")
        self.words = self._progress.words
        self._token = Token(plan.turn)
        self._perturbation = Perturbation(plan.perturbation) if plan.perturbation else None
        self.until = 0
        """Number of the step at whose end we look up; until then the clock only writes."""
        self._sure_until = 0
        """Number of the step at whose end something must be decided."""
        self._looked = (time.perf_counter(), 0)
        self._read = 0
        """Steps whose events were read."""
        self._undrained = 0
        """Recorded steps since the device and the host last met."""
        self._first_step_at: float | None = None
        self.survives = plan.whole or bool(plan.profilers and not plan.evidence)
        """What it has measured is there for whoever reads it when this process is gone."""
        self.ring: SpanRing | None = None
        """The last spans, of which an excerpt is shown; of switched arms there is none."""
        # A profiler's window is to begin or end, as soon as we are outside of torch's own calls.
        self.due = self._wait_for_turn = self._in_window = False
        for name in _STEPS_NEED:
            setattr(self, name, self.guard(getattr(self, name), _MEASURING, off=self.stop))

    def stop(self) -> None:
        """Hotlap has failed where it cannot go on: a trial ends, a training for real goes on without it."""
        self.thread.retire()
        if not self.plan.whole and not self.shutdown.finished:
            self.shutdown.error = self.guard.notes[-1]
            self.shutdown.finish(Status.CRASHED)
        self.windows.close()

    # Reports of the hooks

    def backward_made(self, tensors: Any) -> None:
        """A backward pass is over; `tensors` is what it started from."""
        if self.graphs.capturing is not None:
            self.graphs.capturing.roots.append(tensors)
            return
        if tensors is not None:
            self.losses.went_backward(tensors)
        if self.marker.went_backward():
            self.boundary(self.clock.now())
            if self.due:
                self.turn_page()

    def optimizer_constructed(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer was made: it may have a part in each step from now on."""
        self.marker.made(id(optimizer))
        weakref.finalize(optimizer, self.marker.gone, id(optimizer)).atexit = False
        self.arms.optimizer_made(optimizer)

    def update_made(self, optimizer: torch.optim.Optimizer, end: float) -> None:
        """An optimizer has stepped, until `end` by the clock."""
        if self.graphs.capturing is not None:
            self.graphs.capturing.optimizers.append(optimizer)
            return
        self.updates_made += 1
        if self.plan.evidence:
            self.own(lambda: self.script.updated(optimizer))
            end = self.clock.now()
        self.facts.made_optimizer(optimizer)  # one that was made before we came
        if self.marker.stepped(id(optimizer)):
            self.boundary(end)

    def _group_made(self) -> None:
        self.collectives.joined()
        if self.collectives.active:
            self._progress.processes = self.collectives.local_size

    @property
    def measured(self) -> frozenset[int]:
        """Phases that were seen at all; with a process group also the communication that did not happen."""
        return self.clock.entered | ({phases.COMMUNICATION} if self.collectives.active else set())

    # The end of a step

    def boundary(self, now: float) -> None:
        """A training step is over."""
        self.clock.note((phases.STEP_END, now, now))
        self.steps = steps = self.steps + 1
        words = self.words
        words[STEPS] = steps
        if steps >= self.until or words[STOP]:
            self.decide()

    def decide(self) -> None:
        """Look up between two steps; where something is to be decided, read what the clock wrote. Not a part of any
        step."""
        begun, recorded = self.clock.now(), self.schedule.move.recorded
        if self._first_step_at is None:
            self._note_first_step(begun)
        for told in self.windows.each_step:
            told(self.steps - 1)
        if self._must_read(begun):
            self._read_and_go_on(begun)
        self.until = min(self._sure_until, self.steps + self._affordable(begun))
        if recorded:
            self.own_s += time.perf_counter() - begun
        if not self.plan.whole:
            self._wait()
        self.clock.own(begun)

    def _must_read(self, now: float) -> bool:
        """Something is to be decided, or enough was written; until then reading would only cost."""
        return (
            self.survives
            or self.steps >= self._sure_until
            or self.steps - self._read >= _MOST_UNREAD
            or self._progress.must_stop(self.steps)
            or self.schedule.is_late(now - (self._first_step_at or now))
        )

    def _read_and_go_on(self, now: float) -> None:
        self.account(now=now)
        if self._perturbation is not None:
            self._perturbation.apply(self.facts.parameters())
        last = self.clock.last
        if last is not None and last.spent[phases.BACKWARD] and self.steps < LOADERS_SEEN_BY:
            self.facts.drawn_for_training(last.loaders)
        if self.steps in (1, LOADERS_SEEN_BY):
            self.facts.note_optimizers()
        self._note_loops([] if last is None else last.loaders)
        self._go_on()
        self.script.replaying = self.plan.free_input and self.schedule.warm

    def _wait(self) -> None:
        """Between two steps of a trial: for its turn, and no longer than there is a hotlap to read its record."""
        if procfs.hotlap_is_gone():
            self.shutdown.leave()
        if self._wait_for_turn:
            self._wait_for_turn = False
            self._token.wait(self.shutdown.leave, warm=self.schedule.warm)
            self._looked = time.perf_counter(), self.steps

    def account(self, *, now: float) -> None:
        """The steps that were made since the last look -> rows of the ledger.

        Without a collection: thousands of small objects are made at once, and one would look through all that the
        script holds, for a tenth of a second and more.
        """
        collects = gc.isenabled()
        gc.disable()
        try:
            self._account(now)
        finally:
            if collects:
                gc.enable()

    def _account(self, now: float) -> None:
        schedule, in_window, elapsed_s = self.schedule, self._in_window, now - (self._first_step_at or now)
        steps = self.clock.read()
        for k, step in enumerate(steps, _MOST_UNSEEN - len(steps)):
            move = schedule.move
            step.number, step.recorded, step.arm, step.block = self._read, move.recorded, move.arm, move.block
            if self.ring is not None and k >= 0:  # of many that are read at once the last ones are enough
                self.ring.add(step)
            step.pieces = ()
            if move.recorded:
                self._record(step)
            elif not in_window:
                self.ledger.warm_up(step.spent)
            self._read += 1
            if not in_window:
                self._advance(elapsed_s, step)
        if schedule.is_late(elapsed_s):
            schedule.cut_short()

    def _advance(self, elapsed_s: float, step: StepSpans) -> None:
        settled = self.schedule.warm or self._settled()
        self.schedule.advance(
            settled=settled, elapsed_s=elapsed_s, epoch_started=step.epoch_started, aside=step.aside is not None
        )
        if self.schedule.warm and not settled:
            self.arms.hurry()

    def _go_on(self) -> None:
        move = self.schedule.move
        if self._progress.must_stop(self.steps):
            self.shutdown.finish(Status.COMPLETE if move.done else Status.LAPSED)
        if move.done:
            if self._undrained:
                self._drain()
            if self.windows.idle and not self.plan.whole and not self._in_window:
                self.shutdown.finish(Status.COMPLETE)
            if self.due:  # nobody was there to turn it: an optimizer class that was wrapped before we came
                if self.plan.whole:
                    self.windows.cancel("its optimizers step where a profiler could end the process")
                self.turn_page()
            else:
                self.due = True
            self._sure_until = self.steps + 1
            return
        if move.new_block:
            self._begin_block(move.arm)
        watched = self.plan.evidence or self._perturbation is not None or self.steps < LOADERS_SEEN_BY
        self._sure_until = self.steps + (1 if watched or self.collectives.active else self.schedule.sure)
        script = self.script
        script.attentive = watched or self.plan.free_input or bool(script.on_forward or script.on_batch)
        # Where several train together, the others wait for rank 0 in their collectives.
        self._wait_for_turn = (move.new_block or self.steps == 1) and not self.collectives.rank

    def turn_page(self) -> None:
        """Begin or end a profiler's window.

        Not within an optimizer's step: torch surrounds that with a range of its own profiler's, and a torch profiler
        that is started or stopped within such a range crashes the process now and then (torch 2.13).
        """
        begun = self.clock.now()
        self.due = False
        self._in_window = self.windows.next() or self._waits_for_peers()
        if not self._in_window:
            if not self.plan.whole:
                self.shutdown.finish(Status.COMPLETE)
            self.schedule.go_on()
        self.clock.own(begun)

    def _waits_for_peers(self) -> bool:
        """Windows that are over when they have seen enough are not over at the same step in all processes that train
        together: who is first goes on with the others, or they would wait for it in their next collective."""
        if self.plan.whole or not self.collectives.active or self.collectives.local_size <= 1:
            return False
        self._progress.done(self.collectives.local_rank)
        return True

    def _affordable(self, now: float) -> int:
        """Steps until the next look: a short time for all, so that looking costs short steps next to nothing."""
        seconds, steps = now - self._looked[0], self.steps - self._looked[1]
        self._looked = now, self.steps
        return max(1, min(_MOST_UNSEEN, int(_LOOK_S * steps / seconds))) if seconds > 0 else 1

    def _settled(self) -> bool:
        """Levers have reached their steady state, and there is something to replay where that is wanted."""
        return self.arms.settled() and (self.script.replay.ready() or not self.plan.free_input)

    def _record(self, step: StepSpans) -> None:
        self._undrained += 1
        self.num_recorded += 1
        self.ledger.add(step)
        if self.plan.evidence:
            self.ledger.note_evidence(self.script.evidence())
            self.script.updates.after(self._read)
            self.states.step_ended(self._read, self.facts.parameters(), epoch_started=step.epoch_started)

    def _note_first_step(self, now: float) -> None:
        self._first_step_at = now
        self.setup_s = procfs.age_s()
        if not self.plan.evidence and len(self.plan.arms) == 1:
            with contextlib.suppress(OSError):  # a full disk
                self.ring = SpanRing(self.out / f"spans-{os.getpid()}")
        self.facts.imported.look()
        self.num_threads = torch.get_num_threads()
        self.group_made()
        if self.plan.whole and not self.windows.idle:
            self.schedule.opens_s = _WINDOWS_AFTER_S
        # Those that train together must end their windows at the same step, and each has a clock of its own.
        if self.plan.limit_s is not None and not self.windows.idle and not self.collectives.active:
            self.schedule.left_s = self.plan.limit_s - self.setup_s

    def _note_loops(self, drawn_from: Sequence[int | None]) -> None:
        if self.steps == _SECOND_STEP:
            self.facts.planned_steps = planned_steps(
                sys._getframe(),
                made=_SECOND_STEP,
                batches_a_step=len(drawn_from),
                num_batches=self.facts.num_batches(drawn_from[-1]) if drawn_from else None,
            )
            self.facts.trains_again = trains_again(sys._getframe(), self.facts.made())
            if not self.windows.idle and not self.plan.whole and not self.collectives.active:
                self.schedule.num_planned = self.facts.planned_steps

    def _begin_block(self, arm: int) -> None:
        if self.schedule.switches or not self.schedule.move.block:
            self._drain()
        self.arms.switch(arm, self.facts.optimizers())

    def _drain(self) -> None:
        """Recorded steps end when the device has done them, not when the host has launched them: it may be many steps
        ahead. So the two meet before the first of them and after the last, and each gets its part of the wait."""
        if self.plan.whole or accelerator.in_use() is None:
            return
        begun = self.clock.now()
        accelerator.synchronize()
        self.ledger.share_out(self.clock.now() - begun, self._undrained)
        self._undrained = 0

    def own(self, work: Callable[[], None]) -> None:
        """Do our own work in the middle of a step, without charging it to the step."""
        begin = self.clock.now()
        work()
        self.clock.own(begin)

    def left(self) -> None:
        """This process has written its record: tell the parent."""
        self._progress.leave(self.collectives.local_rank)

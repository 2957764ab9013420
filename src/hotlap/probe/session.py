"""One training process under a plan: hears the hooks, closes each step, and ends the process when all is recorded."""

import os
import sys
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import torch

from hotlap.levers.lever import Patch
from hotlap.probe import clock as phases
from hotlap.probe import parting, traces
from hotlap.probe.arms import Arms
from hotlap.probe.aside import Aside
from hotlap.probe.clock import Clock
from hotlap.probe.collectives import Collectives
from hotlap.probe.evidence import Digest, Nudge, Updates, cuda_in_use, num_samples
from hotlap.probe.facts import Facts, seed_everything
from hotlap.probe.ledger import Ledger, Row
from hotlap.probe.partial import Partial
from hotlap.probe.replay import Replay
from hotlap.probe.schedule import Schedule
from hotlap.probe.steps import StepMarker
from hotlap.probe.thinning import Thinning
from hotlap.probe.turn import Token
from hotlap.probe.windows import Windows
from hotlap.record import Plan, Status
from hotlap.record.progress import Progress

# Which loaders serve training, and what the forward passes are, is known after so many steps.
_LOADERS_SEEN_BY = 50

# A process whose record is written waits for so long to be ended by hotlap; longer than hotlap waits for its peers.
_LEAVE_S = 30.0

Forward = Callable[[torch.nn.Module, Any, Any, Any], None]
"""(module, args, kwargs, result) of an outermost forward pass."""


class Session:
    """The hooks call it; it keeps the books. Everything it does at the end of a step is outside of the measured time.

    What it does for each step is counted in microseconds: a step of a small network takes a hundred of them.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.clock = Clock()
        self.aside = Aside(self.clock)
        self.collectives = Collectives(self.clock)
        self.facts = Facts()
        self.marker = StepMarker()
        self.ledger = Ledger(Thinning() if plan.whole else None)
        self.schedule = Schedule(plan)
        self.arms = Arms(plan)
        self.windows = Windows(plan.watches)
        self.updates = Updates()
        self.on_forward: list[Forward] = []
        """Watches that want to see each outermost forward pass."""
        self.on_batch: list[Callable[[Any, Any], None]] = []
        """Watches that want to see each batch: (iterator, batch)."""
        self.in_forward = False
        self.in_backward = False
        self.updates_made = 0
        self.skipped_updates = 0
        self.measured: set[int] = set()
        """Phases that were seen at all."""
        self.steps = 0
        """Steps made so far."""
        self.setup_s: float | None = None
        self.num_threads: int | None = None
        self.own_s = 0.0
        """Seconds spent in our own affairs at the ends of steps."""
        self.error: str | None = None
        self.out = Path(plan.out)
        self._progress = Progress(self.out / "progress")
        self._token = Token(plan.turn)
        self._replay = Replay()
        self._digest = Digest()
        self._inputs = Digest()
        self._nudge = Nudge(plan.nudge) if plan.nudge else None
        self._first_step_at: float | None = None
        self._in_window = False
        self._finished = False
        self._pid = os.getpid()
        self._new_step()

    def _new_step(self) -> None:
        self._losses: list[torch.Tensor | float] = []
        self._samples: int | None = None
        self._step_updates = 0
        self._epoch_started = False
        self._drawn_from: list[int | None] = []
        self._went_backward = False

    # Reports of the hooks

    def forward_made(self, module: torch.nn.Module, args: Any, kwargs: Any, result: Any) -> None:
        """The outermost module call is over (a loss module counts as one)."""
        self.measured.add(phases.FORWARD)
        if self.steps < 2 and torch.is_grad_enabled():
            self.facts.saw_forward(module, result)
            self.collectives.saw_module(module)
            self.facts.autocast |= torch.is_autocast_enabled() or torch.is_autocast_enabled("cpu")
            self.facts.compiled |= type(module).__name__ == "OptimizedModule"
        if self.plan.evidence and torch.is_grad_enabled():
            self.own(lambda: self._inputs.add((args, kwargs)))
        for told in self.on_forward:
            told(module, args, kwargs, result)

    def backward_made(self, tensors: Any) -> None:
        """A backward pass is over; `tensors` is what it started from."""
        self.measured.add(phases.BACKWARD)
        self._went_backward = True
        for tensor in tensors if isinstance(tensors, tuple | list) else (tensors,):
            if isinstance(tensor, torch.Tensor) and tensor.numel() == 1:
                # On the CPU reading costs nothing; on a device it would wait, so the value is read after the window.
                self._losses.append(tensor.item() if tensor.is_cpu else tensor.detach().clone())
        if self.marker.went_backward():
            self._boundary()

    def optimizer_constructed(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer was made."""
        number = self.facts.made_optimizer_at(optimizer)
        self.marker.made(number)
        weakref.finalize(optimizer, self.marker.gone, number).atexit = False
        self.arms.optimizer_made(optimizer)

    def update_begins(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer is about to step."""
        if self.plan.evidence and Updates.wanted(self.steps):
            self.own(lambda: self.updates.before(self._parameters()))

    def update_made(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer has stepped."""
        self.measured.add(phases.OPTIMIZER)
        self.updates_made += 1
        self._step_updates += 1
        if self.marker.stepped(self.facts.made_optimizer(optimizer)):
            self._boundary()

    def loader_started(self, loader: Any, iterator: Any) -> None:
        """`iter(loader)`."""
        self.measured.add(phases.INPUT)
        self._epoch_started = True
        self._replay.started(iterator, loader_id=self.facts.loader_id(loader), length=_length(loader))

    def batch_drawn(self, iterator: Any, batch: Any) -> None:
        """A loader's iterator gave `batch`."""
        count = num_samples(batch)
        if count is not None:
            self._samples = (self._samples or 0) + count
        if self.steps < _LOADERS_SEEN_BY:
            self._drawn_from.append(self._replay.loader_id(iterator))
        if self.plan.evidence:
            self.own(lambda: self._digest.add(batch))
        elif self.plan.free_input:
            self.own(lambda: self._replay.keep(iterator, batch))
        for told in self.on_batch:
            told(iterator, batch)

    def compile_called(self) -> None:
        """The script asked for torch.compile."""
        self.facts.compiled = True

    @property
    def replaying(self) -> bool:
        """Batches are free now."""
        return self.plan.free_input and self.schedule.warm

    def replay(self, iterator: Any) -> Any:
        """A batch that was drawn before, in place of the next one."""
        return self._replay.next(iterator)

    def group_made(self) -> None:
        """A process group may be there now."""
        self.collectives.joined()
        if self.collectives.active:
            self.measured.add(phases.COMMUNICATION)
            self._progress.processes = self.collectives.local_size

    # The end of a step

    def _boundary(self) -> None:
        if self._finished:
            return
        spent = self.clock.lap()
        begun = time.perf_counter()
        if self.steps == 0:
            self._note_first_step(begun)
        move = self.schedule.move
        self.collectives.step_ended(self.steps, recorded=move.recorded)
        if move.recorded:
            self._record(spent, arm=move.arm, block=move.block)
        elif not self._in_window:
            self.ledger.warm_up(spent)
        self.aside.take()
        if self._nudge is not None:
            self._nudge.apply(self._parameters())
        self.steps += 1
        self._progress.steps = self.steps
        if self._went_backward and self.steps < _LOADERS_SEEN_BY:
            self.facts.drawn_for_training(self._drawn_from)
        epoch_started = self._epoch_started
        self._new_step()
        for told in self.windows.each_step:
            told(self.steps - 1)
        self._next_move(begun, epoch_started=epoch_started)

    def _next_move(self, begun: float, *, epoch_started: bool) -> None:
        schedule = self.schedule
        move = schedule.move
        if not self._in_window:
            move = schedule.advance(
                settled=schedule.warm or self._settled(),
                elapsed_s=begun - (self._first_step_at or begun),
                epoch_started=epoch_started,
            )
        if self._progress.must_stop(self.steps):
            self.finish(Status.COMPLETE if move.done else Status.LAPSED)
        if move.done:
            self._in_window = self.windows.next()
            if not self._in_window:
                if not self.plan.whole:
                    self.finish(Status.COMPLETE)
                schedule.go_on()
        if move.new_block:
            self._begin_block(move.arm)
        self.own_s += time.perf_counter() - begun
        if (move.new_block or self.steps == 1) and not self.collectives.rank:
            # Where several train together, the others wait for rank 0 in their collectives.
            self._token.wait(self._leave, warm=schedule.warm)
        self.clock.restart()

    def _settled(self) -> bool:
        """Levers have reached their steady state, and there is something to replay where that is wanted."""
        return self.arms.settled() and (self._replay.ready() or not self.plan.free_input)

    def _record(self, spent: list[float], *, arm: int, block: int) -> None:
        ledger = self.ledger
        ledger.add(
            Row(
                spent,
                self.aside.take(),
                arm,
                block,
                self.steps,
                self._losses,
                self._samples,
                self._step_updates,
                self._epoch_started,
            )
        )
        if not self.plan.evidence:
            return
        optimizers = self.facts.optimizers()
        batch, inputs = self._digest.take(), self._inputs.take()
        ledger.note_evidence(batch or inputs, optimizers)
        self.updates.after(self.steps)

    def _note_first_step(self, now: float) -> None:
        self._first_step_at = now
        self.setup_s = time.time() - parting.process_start()
        self.num_threads = torch.get_num_threads()
        self.group_made()

    def _begin_block(self, arm: int) -> None:
        self._progress.arm = arm
        self.arms.switch(arm, self.facts.optimizers())
        if cuda_in_use():
            # A block's time must hold the block's own work, whole: host and device meet between blocks, not within.
            torch.cuda.synchronize()

    def _parameters(self) -> list[torch.Tensor]:
        return [
            p
            for optimizer in self.facts.optimizers()
            for group in optimizer.param_groups
            for p in group["params"]
            if p.requires_grad
        ]

    def own(self, work: Callable[[], None]) -> None:
        """Do our own work in the middle of a step, without charging it to the step."""
        self.clock.pause()
        work()
        self.clock.restart()

    # The end of the run

    def failed(self, error: BaseException) -> None:
        """The script raised; it goes on to show its own traceback."""
        self.error = f"{type(error).__name__}: {error}"[:500]

    def script_ends(self) -> None:
        """The interpreter is about to leave: write what is known."""
        if not self._finished and os.getpid() == self._pid:
            self._finished = True
            parting.write(self, Status.CRASHED if self.error else Status.ENDED, sample=False)

    def forked(self) -> None:
        """We are in a child now. It may be the one that trains; once its parent has trained, it is not."""
        self._pid = os.getpid()
        self._finished = self._finished or self.steps > 0

    def child_ends(self, code: int) -> None:
        """A process that the script started with multiprocessing, and that may have trained, is about to leave."""
        if code and self.error is None:
            self.error = f"a process that the script started left with exit code {code}"
        if self.steps:
            self.script_ends()

    def finish(self, status: Status) -> NoReturn:
        """Write the record and leave at once: no `finally`, no checkpoint, no atexit hook of the script runs."""
        self._finished = True
        parting.write(self, status, sample=True)
        self._progress.leave(self.collectives.local_rank)
        self._leave(wait_s=_LEAVE_S)

    def _leave(self, *, wait_s: float = 0.0) -> NoReturn:
        for stream in (sys.stdout, sys.stderr):
            # A closed or broken stream of the script's must not keep the process from leaving.
            try:
                stream.flush()
            except Exception:
                continue
        # Hotlap ends all processes of the command at once. If this one left first, its peers would fail in their next
        # collective, and a shell script would go on as if the training had been completed.
        parting.await_end(wait_s)
        os._exit(0)


def start(plan: Plan) -> Session:
    """Torch has just been imported: seed, install the levers and the hooks."""
    import atexit

    from hotlap.probe import hooks, offspring

    if plan.seed is not None:
        seed_everything(plan.seed + plan.reseed)
    session = Session(plan)
    session.arms.install_always()
    patch = Patch()
    hooks.install(session, patch)
    session.windows.install(session, patch)
    if plan.whole:
        session.windows.each_step += (Partial(session).step_ended,)
    atexit.register(session.script_ends)
    os.register_at_fork(after_in_child=session.forked)
    offspring.follow(session)
    show = sys.excepthook

    def excepthook(kind: Any, error: BaseException, trace: Any) -> None:
        session.failed(error)
        own_trace = traces.without_ours(error)
        show(kind, error, own_trace)

    sys.excepthook = excepthook
    return session


def _length(loader: Any) -> int | None:
    """Batches of an epoch; None where the loader cannot tell."""
    try:
        return len(loader)
    except TypeError:
        return None

"""One training process under a plan: hears the hooks, closes each step, writes the record, ends the process."""

import os
import select
import sys
import time
import weakref
from pathlib import Path
from typing import Any, NoReturn

import torch

import hotlap
from hotlap.levers.lever import Patch
from hotlap.probe import clock as phases
from hotlap.probe.arms import Arms
from hotlap.probe.clock import Clock
from hotlap.probe.evidence import (
    Digest,
    Nudge,
    Updates,
    cuda_in_use,
    learning_rates,
    num_samples,
    rng_digest,
    settings_digest,
)
from hotlap.probe.facts import Facts, device_name, seed_everything
from hotlap.probe.ledger import Ledger
from hotlap.probe.replay import Replay
from hotlap.probe.schedule import Schedule
from hotlap.probe.sites import users_sources
from hotlap.probe.steps import StepMarker
from hotlap.record import Plan, Run, Status, save
from hotlap.record.progress import READY, WARMING, Progress

# How often a process that waits for its turn looks whether the parent is still there.
_WAIT_S = 5.0

# Which loaders serve training is known after so many steps.
_LOADERS_SEEN_BY = 50


class Session:
    """The hooks call it; it keeps the books. Everything it does itself is outside of the measured time."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.clock = Clock()
        self.facts = Facts()
        self.marker = StepMarker()
        self.ledger = Ledger()
        self.schedule = Schedule(plan)
        self.arms = Arms(plan)
        self.in_forward = False
        self.in_backward = False
        self.hears_solves = False
        self.updates_made = 0
        self.skipped_updates = 0
        self._out = Path(plan.out)
        self._progress = Progress(self._out / "progress")
        self._turn = _Turn(plan)
        self._replay = Replay()
        self._digest = Digest()
        self._inputs = Digest()
        self._updates = Updates()
        self._nudge = Nudge(plan.nudge) if plan.nudge else None
        self._measured: set[int] = set()
        self._steps = 0
        self._first_step_at: float | None = None
        self._setup_s: float | None = None
        self._num_threads: int | None = None
        self._probe_s = 0.0
        self._finished = False
        self._error: str | None = None
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
        self._measured.add(phases.FORWARD)
        if self._steps < 2 and torch.is_grad_enabled():
            self.facts.saw_forward(module, result)
            self.facts.autocast |= torch.is_autocast_enabled() or torch.is_autocast_enabled("cpu")
            self.facts.compiled |= type(module).__name__ == "OptimizedModule"
        if self.plan.evidence and torch.is_grad_enabled():
            self._own(lambda: self._inputs.add((args, kwargs)))

    def backward_made(self, tensors: Any) -> None:
        """A backward pass is over; `tensors` is what it started from."""
        self._measured.add(phases.BACKWARD)
        self._went_backward = True
        for tensor in tensors if isinstance(tensors, tuple | list) else (tensors,):
            if isinstance(tensor, torch.Tensor) and tensor.numel() == 1:
                # On the CPU reading costs nothing; on a device it would wait, so the value is read after the window.
                self._losses.append(tensor.item() if tensor.device.type == "cpu" else tensor.detach().clone())
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
        if self.plan.evidence and Updates.wanted(self._steps):
            self._own(lambda: self._updates.before(self._parameters()))

    def update_made(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer has stepped."""
        self._measured.add(phases.OPTIMIZER)
        self.updates_made += 1
        self._step_updates += 1
        if self.marker.stepped(self.facts.made_optimizer(optimizer)):
            self._boundary()

    def loader_started(self, loader: Any, iterator: Any) -> None:
        """`iter(loader)`."""
        self._measured.add(phases.INPUT)
        self._epoch_started = True
        self._replay.started(iterator, loader_id=self.facts.loader_id(loader), length=_length(loader))

    def batch_drawn(self, iterator: Any, batch: Any) -> None:
        """A loader's iterator gave `batch`."""
        count = num_samples(batch)
        if count is not None:
            self._samples = (self._samples or 0) + count
        self._drawn_from.append(self._replay.loader_id(iterator))
        if self.plan.evidence:
            self._own(lambda: self._digest.add(batch))
        elif self.plan.free_input:
            self._own(lambda: self._replay.keep(iterator, batch))

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

    # The end of a step

    def _boundary(self) -> None:
        spent = self.clock.lap()
        begun = time.perf_counter()
        self._note_first_step(begun)
        move = self.schedule.move
        if move.recorded:
            self._record(spent, arm=move.arm, block=move.block)
        else:
            self.ledger.warm_up(spent)
        if self._nudge is not None:
            self._nudge.apply(self._parameters())
        self._steps += 1
        self._progress.steps = self._steps
        if self._went_backward and self._steps < _LOADERS_SEEN_BY:
            self.facts.drawn_for_training(self._drawn_from)
        epoch_started = self._epoch_started
        self._new_step()
        move = self.schedule.advance(
            settled=self.arms.settled() and (self._replay.ready() or not self.plan.free_input),
            elapsed_s=begun - (self._first_step_at or begun),
            epoch_started=epoch_started,
        )
        if self._progress.stop or move.done:
            self.finish(Status.COMPLETE if move.done else Status.LAPSED)
        if move.new_block:
            self._begin_block(move.arm)
        self._probe_s += time.perf_counter() - begun
        if move.new_block or self._steps == 1:
            self._turn.wait(self._leave, warm=self.schedule.warm)
        self.clock.restart()

    def _record(self, spent: list[float], *, arm: int, block: int) -> None:
        ledger = self.ledger
        ledger.step(
            spent,
            arm=arm,
            block=block,
            step_index=self._steps,
            losses=self._losses,
            num_samples=self._samples,
            num_updates=self._step_updates,
            epoch_started=self._epoch_started,
        )
        if not self.plan.evidence:
            return
        optimizers = self.facts.optimizers()
        batch, inputs = self._digest.take(), self._inputs.take()
        ledger.batch_digest.append(batch or inputs)
        ledger.rng_digest.append(rng_digest())
        ledger.settings_digest.append(settings_digest(optimizers))
        ledger.learning_rates.append(learning_rates(optimizers))
        self._updates.after(self._steps)

    def _note_first_step(self, now: float) -> None:
        if self._first_step_at is None:
            self._first_step_at = now
            self._setup_s = time.time() - _process_start()
            self._num_threads = torch.get_num_threads()

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

    def _own(self, work: Any) -> None:
        """Do our own work in the middle of a step, without charging it to the step."""
        self.clock.pause()
        work()
        self.clock.restart()

    # The end of the run

    def failed(self, error: BaseException) -> None:
        """The script raised; it goes on to show its own traceback."""
        self._error = f"{type(error).__name__}: {error}"[:500]

    def script_ends(self) -> None:
        """The interpreter is about to leave: write what is known."""
        if not self._finished:
            self._finished = True
            self._write(Status.CRASHED if self._error else Status.ENDED, sample=False)

    def finish(self, status: Status) -> NoReturn:
        """Write the record and leave at once: no `finally`, no checkpoint, no atexit hook of the script runs."""
        self._finished = True
        self._write(status, sample=True)
        self._leave()

    def _leave(self) -> NoReturn:
        for stream in (sys.stdout, sys.stderr):
            # A closed or broken stream of the script's must not keep the process from leaving.
            try:
                stream.flush()
            except Exception:
                continue
        os._exit(0)

    def _write(self, status: Status, *, sample: bool) -> None:
        self.arms.close()
        save(self._run(status, sample=sample), self._out / f"run-{os.environ.get('RANK', '0')}.json")

    def _run(self, status: Status, *, sample: bool) -> Run:
        optimizers = self.facts.optimizers()
        sample = sample and self.plan.evidence
        return Run(
            status=status,
            error=self._error,
            versions=_versions(),
            device=device_name(_device_of(optimizers)),
            num_threads=self._num_threads,
            seed=None if self.plan.seed is None else self.plan.seed + self.plan.reseed,
            reseed=self.plan.reseed,
            nudge=self.plan.nudge,
            arms=self.plan.arms,
            always=self.plan.always,
            setup_s=self._setup_s,
            skipped_updates=self.skipped_updates,
            updates=tuple(self._updates.seen) if self.plan.evidence else None,
            loaders=self.facts.loader_facts(sample=sample),
            optimizers=self.facts.optimizer_facts(),
            autocast=self.facts.autocast,
            compiled=self.facts.compiled,
            call_sites=self.facts.all_call_sites(),
            sources=users_sources(),
            rss_peak_bytes=_rss_peak_bytes(),
            device_peak_bytes=torch.cuda.max_memory_allocated() if torch.cuda.is_available() else None,
            probe_s=self._probe_per_step_s(),
            not_installed=tuple(dict.fromkeys(self.arms.not_installed)),
            notes=tuple(dict.fromkeys(self.arms.notes)),
            **self.ledger.columns(measured=frozenset(self._measured), evidence=self.plan.evidence),
        )

    def _probe_per_step_s(self) -> float | None:
        if not self._steps:
            return None
        return (self._probe_s + self.clock.num_events * _event_s()) / self._steps


class _Turn:
    """The token of a heat, as the child sees it."""

    def __init__(self, plan: Plan) -> None:
        self._turn = plan.turn
        self._parent = os.environ.get("HOTLAP_PARENT", "")
        self._files: tuple[int, int] | None = None

    def wait(self, leave: Any, *, warm: bool) -> None:
        """Say that the turn is over (and whether the next step will be timed), and wait for the next one."""
        if self._turn is None:
            return
        if self._files is None:
            self._files = (os.open(self._turn.ready, os.O_WRONLY), os.open(self._turn.go, os.O_RDONLY))
        ready, go = self._files
        os.write(ready, READY if warm else WARMING)
        while not select.select([go], [], [], _WAIT_S)[0]:
            if self._parent and not Path(f"/proc/{self._parent}").exists() and sys.platform == "linux":
                leave()
        os.read(go, 1)


def start(plan: Plan) -> None:
    """Torch has just been imported: seed, install the levers and the hooks."""
    import atexit

    from hotlap.probe import hooks

    if plan.seed is not None:
        seed_everything(plan.seed + plan.reseed)
    session = Session(plan)
    session.arms.install_always()
    hooks.install(session, Patch())
    atexit.register(session.script_ends)
    show = sys.excepthook

    def excepthook(kind: Any, error: BaseException, trace: Any) -> None:
        session.failed(error)
        show(kind, error, trace)

    sys.excepthook = excepthook


def _length(loader: Any) -> int | None:
    """Batches of an epoch; None where the loader cannot tell."""
    try:
        return len(loader)
    except TypeError:
        return None


def _device_of(optimizers: list[torch.optim.Optimizer]) -> torch.device:
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                return torch.device(parameter.device)
    return torch.device("cpu")


def _versions() -> dict[str, str]:
    versions = {
        "python": ".".join(map(str, sys.version_info[:3])),
        "torch": str(torch.__version__),
        "hotlap": hotlap.__version__,
    }
    if "torchdiffeq" in sys.modules:  # what a lever is for
        versions["torchdiffeq"] = str(getattr(sys.modules["torchdiffeq"], "__version__", ""))
    return versions | ({"cuda": torch.version.cuda} if torch.version.cuda else {})


def _rss_peak_bytes() -> int | None:
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _process_start() -> float:
    import psutil

    return float(psutil.Process().create_time())


def _event_s() -> float:
    """What one `enter` or `leave` costs here and now, the caller's wrapper included."""
    clock = Clock()
    repeats = 2000

    def wrapper() -> None:
        clock.enter(phases.FORWARD)
        try:
            pass
        finally:
            clock.leave()

    begun = time.perf_counter()
    for _ in range(repeats):
        wrapper()
    return (time.perf_counter() - begun) / (2 * repeats)

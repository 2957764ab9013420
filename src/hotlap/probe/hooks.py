"""Puts the probe's ears on torch: one `Patch` that can take them all off again."""

import functools
from collections.abc import Callable
from threading import get_ident
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_compiling
from torch.nn import utils
from torch.utils.data import DataLoader, dataloader

from hotlap.levers.lever import Patch
from hotlap.probe import collectives, device, optimizer_hooks, seeds, unseen
from hotlap.probe.clock import BACKWARD, BETWEEN, DRAW, FORWARD, INPUT, LOOK, LOSS, SAMPLES, TRAIN
from hotlap.probe.digests import num_samples
from hotlap.probe.guard import call_behind, surrounded
from hotlap.probe.imports import after_import
from hotlap.probe.session import Session
from hotlap.probe.steps import MAX_ACCUMULATION
from hotlap.probe.thread import TrainingThread
from hotlap.record import Phase
from hotlap.record.progress import REACHED

# As the words of the progress have them.
_INPUT, _FORWARD, _BACKWARD = (1 + phase for phase in (INPUT, FORWARD, BACKWARD))

_SEVERAL = (list, tuple)

# (name of a function that clips, name of its limit, what it limits)
_CLIPPING = (("clip_grad_norm_", "max_norm", "norm"), ("clip_grad_value_", "clip_value", "value"))


def install(session: Session, patch: Patch) -> None:
    """Report everything that belongs to a training step to `session`."""
    thread = session.thread
    thread.install(patch)
    unseen.until_compiled(patch)
    _hook_modules(session, patch, thread)
    _hook_backward(session, patch, thread)
    optimizer_hooks.install(session, patch, thread)
    _hook_loaders(session, patch, thread)
    _hook_constructors(session, patch)
    hook_solves = session.guard(lambda: _hook_solves(session, patch, thread), "the solves of torchdiffeq")
    after_import("torchdiffeq", hook_solves)
    _hook_state(session, patch)
    collectives.install(session.collectives, patch, thread, session.group_made, session.guard)
    session.graphs.install(patch)
    device.hook_when_there(
        patch, lambda: device.hook(session.clock, patch, trains_here=lambda: get_ident() == thread.id)
    )
    if session.plan.reseed or session.plan.evidence:
        session.script.draws.own = seeds.shift(session.plan.reseed, patch)
    if session.plan.evidence:
        _hook_clipping(patch, thread, session.script.clipped)
        numbers = session.script.numbers
        session.guard(numbers.install, "the number of random numbers")(patch, thread, session.guard)


def _hook_modules(session: Session, patch: Patch, thread: TrainingThread) -> None:
    """Outermost module calls are the forward phase.

    A wrapper around `Module.__call__`, not torch's global module hooks: those send every submodule down the slow path
    of `_call_impl` (about 2 us each), while this adds one branch to the inner calls. These go straight to where torch's
    own `__call__` would: 30 ns more for each layer instead of 270.
    """
    call = torch.nn.Module.__call__
    is_torchs = call is torch.nn.Module._wrapped_call_impl
    clock, script, words = session.clock, session.script, session.words
    now, note = clock.now, clock.note
    is_grad_enabled = torch.is_grad_enabled
    make = surrounded(script.forward_begins, call, script.forward_left) if session.plan.evidence else call
    is_straight = is_torchs and make is call

    def __call__(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 - it becomes that method
        if (
            (unseen.compiles and is_compiling())
            or clock.where not in BETWEEN
            or (clock.shared and get_ident() != thread.id)
        ):
            if is_torchs and self._compiled_call_impl is None:
                return self._call_impl(*args, **kwargs)  # type: ignore[no-untyped-call]
            return call(self, *args, **kwargs)
        words[REACHED] = _FORWARD
        before = clock.where
        clock.where = what = TRAIN if self.training and is_grad_enabled() else LOOK
        begin = now()
        try:
            if is_straight and self._compiled_call_impl is None:
                result = self._call_impl(*args, **kwargs)  # type: ignore[no-untyped-call]
            else:
                result = make(self, *args, **kwargs)
        finally:
            note((what, begin, now()))
            clock.where = before
        if script.attentive:
            script.forward_made(self, args, kwargs, result)
        return result

    clock.callers[Phase.FORWARD].add(__call__.__code__)
    patch.set(torch.nn.Module, "__call__", __call__)


def _hook_backward(session: Session, patch: Patch, thread: TrainingThread) -> None:  # noqa: C901 - a call each would cost every step
    clock, words, marker, told = session.clock, session.words, session.marker, session.losses
    now, note = clock.now, clock.note

    books, script = session.collectives, session.script

    def timed(function: Callable[..., Any], *, losses: bool) -> Callable[..., Any]:
        begins = functools.partial(script.backward_begins, counts=losses)
        make = surrounded(begins, function, script.backward_ended) if session.plan.evidence else function

        listening = books.listening(make, session.guard)

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            # First, here and below: inside a compiled function there must be nothing that Dynamo cannot trace.
            if (
                (unseen.compiles and is_compiling())
                or clock.where == BACKWARD
                or (clock.shared and get_ident() != thread.sure and not thread.trains())
            ):
                return function(*args, **kwargs)
            roots = args[0] if args else kwargs.get("tensors", kwargs.get("outputs"))
            words[REACHED] = _BACKWARD
            before, clock.where = clock.where, BACKWARD
            begin = now()
            try:
                result = listening(roots, *args, **kwargs) if books.hidden else make(*args, **kwargs)
            except BaseException:
                note((BACKWARD, begin, now()))
                raise
            finally:
                clock.where = before
            end = now()
            # What `backward_made` comes to in nearly all steps, without its call: one optimizer, one loss on the host.
            if marker.only is None or marker.backwards >= MAX_ACCUMULATION:
                note((BACKWARD, begin, end))
                session.backward_made(roots if losses else None)
                return result
            marker.backwards += 1
            if losses and type(roots) is Tensor and roots.is_cpu and not roots.ndim and told.last_scaled is None:
                loss = roots.item()  # on the CPU reading costs nothing
                note((BACKWARD, begin, end, LOSS, loss, None) if type(loss) is float else (BACKWARD, begin, end))
                return result
            note((BACKWARD, begin, end))
            if losses:
                told.went_backward(roots)
            return result

        hook: Any = wrapper
        clock.callers[Phase.BACKWARD].add(hook.__code__)
        return wrapper

    for name, losses in (("backward", session.wants_losses), ("grad", False)):
        patch.set(torch.autograd, name, timed(getattr(torch.autograd, name), losses=losses))


def _hook_loaders(session: Session, patch: Patch, thread: TrainingThread) -> None:
    kind = dataloader._BaseDataLoaderIter
    next_batch = kind.__next__
    start = DataLoader.__iter__
    script = session.script
    count_samples = session.guard(num_samples, "the number of samples in a batch", off=session.must_be_there)
    replay = session.guard.around(next_batch, script.replayed, "the replay of batches")
    clock, words = session.clock, session.words
    timed_start = surrounded(functools.partial(clock.enter, DRAW), start, clock.leave)
    now, note = clock.now, clock.note

    def __next__(self: Any) -> Any:  # noqa: N807 - it becomes that method
        if clock.shared and get_ident() != thread.id:
            return next_batch(self)
        words[REACHED] = _INPUT
        before, clock.where = clock.where, DRAW
        begin = now()
        try:
            batch = replay(self) if script.replaying else next_batch(self)
        except BaseException:
            note((DRAW, begin, now()))
            raise
        finally:
            clock.where = before
        end = now()
        # Nearly all batches, without a call: this runs in every step. (`len` of a tensor is a function of Python's.)
        first = batch[0] if type(batch) in _SEVERAL and batch else None
        if type(first) is Tensor and not first.is_nested and (shape := first.shape):
            count = shape[0]
        else:
            count = count_samples(batch)
        note((DRAW, begin, end) if count is None else (DRAW, begin, end, SAMPLES, count, None))
        if script.attentive:
            script.batch_drawn(self, batch)
        return batch

    @functools.wraps(start)
    def __iter__(self: "DataLoader[Any]") -> Any:  # noqa: N807 - it becomes that method
        if get_ident() != thread.id:
            return start(self)
        iterator = timed_start(self)
        script.loader_started(self, iterator)
        return iterator

    clock.callers[Phase.INPUT] |= {__next__.__code__, start.__code__}
    patch.set(kind, "__next__", __next__)
    patch.set(DataLoader, "__iter__", __iter__)


def _hook_constructors(session: Session, patch: Patch) -> None:
    loader_made = session.guard(session.facts.made_loader, "the loaders", off=session.must_be_there)
    for kind, note in ((DataLoader, loader_made), (torch.optim.Optimizer, session.script.optimizer_constructed)):
        call_behind(patch, kind, "__init__", note)


def _hook_solves(session: Session, patch: Patch, thread: TrainingThread) -> None:
    """A whole solve of torchdiffeq's is the forward phase, and its start and times are what goes into it.

    The calls of the field inside are the solver's: one that rounds otherwise makes others.
    """
    from hotlap.small.script_solves import known_solves

    def around(func: Any, y0: Any, t: Any, run: Callable[[], Any]) -> Any:
        if session.clock.where not in BETWEEN or get_ident() != thread.id:
            return run()
        result = surrounded(functools.partial(session.clock.enter, FORWARD), run, session.clock.leave)()
        if isinstance(func, torch.nn.Module):
            session.script.forward_made(func, (y0, t), {}, result)
        return result

    session.clock.callers[Phase.FORWARD].add(around.__code__)
    known_solves().watch(around)
    patch.on_undo(functools.partial(known_solves().watch, None))


def _hook_state(session: Session, patch: Patch) -> None:
    """Choices that the script makes on purpose, which levers must respect."""
    guard, facts = session.guard, session.facts
    threads_set = guard(lambda *_: facts.called("torch.set_num_threads"), "calls of set_num_threads")
    call_behind(patch, torch, "set_num_threads", threads_set)
    call_behind(patch, torch, "compile", lambda *_: setattr(facts, "compiled", True))

    def answering(set_anomaly: Callable[..., None]) -> Callable[..., None]:
        def answered(mode: bool, check_nan: bool = True) -> None:
            facts.anomaly_mode |= mode and session.steps > 0
            set_anomaly(mode and not facts.bars_anomaly_mode, check_nan)

        return answered

    if session.plan.profilers:
        anomaly = guard.around(torch.set_anomaly_enabled, answering, "calls of set_anomaly_enabled")
        patch.set(torch, "set_anomaly_enabled", anomaly)


def _hook_clipping(patch: Patch, thread: TrainingThread, told: Callable[[str, Any, Tensor | None], None]) -> None:
    """`told` is called as `evidence.Clips.add`, whenever the training thread clips gradients."""
    for name, key, what in _CLIPPING:

        def clipped(norm: Tensor | None, *args: Any, key: str = key, what: str = what, **kwargs: Any) -> None:
            told(what, args[1] if len(args) > 1 else kwargs[key], norm)

        wrapper = thread.telling(getattr(utils, name), clipped)
        for module in (utils, utils.clip_grad):
            patch.set(module, name, wrapper)

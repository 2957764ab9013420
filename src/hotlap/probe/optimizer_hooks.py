"""When optimizers step, and clear gradients: the hooks of `hotlap.probe.hooks` that concern them."""

import functools
import sys
from collections.abc import Callable
from threading import get_ident
from types import FrameType, FunctionType, MethodType
from typing import Any

import torch
from torch.compiler import is_compiling

from hotlap.levers.lever import Patch
from hotlap.probe import unseen
from hotlap.probe.clock import OPTIMIZER, OTHER, STEP, STEP_END, Clock
from hotlap.probe.guard import around_steps, call_behind, surrounded
from hotlap.probe.session import Session
from hotlap.probe.sites import outwards
from hotlap.probe.thread import TrainingThread
from hotlap.record.progress import REACHED, STEPS, STOP

# As the words of the progress have it.
_OPTIMIZER = 1 + OPTIMIZER

StepHook = Callable[[torch.optim.Optimizer, Any, Any], tuple[Any, Any] | None]

# What a closure is made of. Anything else that is callable may be wanted for what it has besides, as a model is.
_CLOSURES = (FunctionType, MethodType, functools.partial)

# Functions that have the optimizer as `self` while it steps: torch's wrapper, and what it wraps.
_OF_STEPS = frozenset({"wrapper", "step"})


def install(session: Session, patch: Patch, thread: TrainingThread) -> None:
    """Report steps, cleared gradients and skipped steps to `session`."""
    around_steps(patch, *_step_hooks(session, thread))
    _hook_scaler(session, patch, thread)
    if not session.windows.idle:
        _surround_steps(session, patch)
    if session.survives:
        _hook_zero_grad(session, patch, thread)


def _hook_zero_grad(session: Session, patch: Patch, thread: TrainingThread) -> None:
    """It is the optimizer's phase. A trial is spared that: its steps are compared, and there it is the script's own."""
    clock = session.clock
    now, note = clock.now, clock.note
    zero_grad = torch.optim.Optimizer.zero_grad

    @functools.wraps(zero_grad)
    def timed_zero_grad(self: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> Any:
        if (unseen.compiles and is_compiling()) or get_ident() != thread.id:
            return zero_grad(self, *args, **kwargs)
        before, clock.where = clock.where, OPTIMIZER
        begin = now()
        try:
            return zero_grad(self, *args, **kwargs)
        finally:
            note((OPTIMIZER, begin, now()))
            clock.where = before

    patch.set(torch.optim.Optimizer, "zero_grad", timed_zero_grad)


def _begun(session: Session, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
    """Tell of a step with arguments; other ones in their place, or None."""
    closure = any(map(callable, (*args[1:], *kwargs.values())))  # `step(None)` is how accelerate calls it
    session.script.update_begins(optimizer, closure=closure)
    return _with_own_time(session.clock, args, kwargs) if closure else None


def _with_own_time(clock: Clock, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Arguments of an optimizer's step -> the same with the time of a closure kept apart: Lightning's holds the whole
    training step of the script. What is a forward or backward pass in it is told as such."""

    def timed(value: Any) -> Any:
        is_closure = isinstance(value, _CLOSURES)
        return surrounded(functools.partial(clock.enter, OTHER), value, clock.leave) if is_closure else value

    return (args[0], *map(timed, args[1:])), {name: timed(value) for name, value in kwargs.items()}


def _step_hooks(session: Session, thread: TrainingThread) -> tuple[StepHook, StepHook]:
    """Before and after an optimizer's step; of nested ones (an optimizer that wraps another) only the outermost counts.

    Names of a function around them, not attributes of an object: this runs in every step, and those are read faster.
    """
    clock, marker, evidence, words = session.clock, session.marker, session.plan.evidence, session.words
    now, note = clock.now, clock.note
    outermost: int | None = None
    where, begin = OTHER, 0.0

    def before(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
        nonlocal outermost, where, begin
        # One that is outermost already: its last step ended in an exception, or torch has wrapped it twice.
        if get_ident() != thread.id or (
            outermost is not None and outermost != id(optimizer) and _is_stepping(outermost, sys._getframe(1))
        ):
            return None
        outermost = id(optimizer)
        words[REACHED] = _OPTIMIZER
        if clock.where != STEP:
            where = clock.where
        clock.where = STEP
        given = _begun(session, optimizer, args, kwargs) if evidence or kwargs or len(args) > 1 else None
        begin = now()
        return given

    def after(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        nonlocal outermost
        if outermost != id(optimizer):
            return
        end = now()
        clock.where, outermost = where, None
        if marker.only != id(optimizer) or evidence:
            note((STEP, begin, end))
            session.update_made(optimizer, end)
            return
        # As `update_made` and `boundary` have it, without their calls.
        note((STEP, begin, end, STEP_END, end, end))
        session.updates_made += 1
        marker.backwards = 0
        session.steps = steps = words[STEPS] = session.steps + 1
        if steps >= session.until or words[STOP]:
            session.decide()

    return before, after


def _is_stepping(optimizer: int, frame: FrameType) -> bool:
    """A step of it is under way below `frame`; else its last one ended in an exception."""
    return any(id(one.f_locals.get("self")) == optimizer for one in outwards(frame) if one.f_code.co_name in _OF_STEPS)


def _surround_steps(session: Session, patch: Patch) -> None:
    """Where torch puts its own wrapper around an optimizer's `step`, once a class, put one around that: windows of
    profilers begin and end there. A trial has none, and is spared a call in each step."""
    surround = torch.optim.Optimizer.profile_hook_step

    def profile_hook_step(step: Any) -> Any:
        surrounded = surround(step)

        @functools.wraps(surrounded)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            result = surrounded(*args, **kwargs)
            if session.due:
                session.turn_page()
            return result

        return wrapper

    patch.set(torch.optim.Optimizer, "profile_hook_step", staticmethod(profile_hook_step))


def _hook_scaler(session: Session, patch: Patch, thread: TrainingThread) -> None:
    """A step that a GradScaler leaves out is no step, but it is counted; losses are told as they were before it."""
    scaler_step = torch.amp.GradScaler.step
    hooked = set()

    def made(scaler: Any) -> None:
        """That of FSDP scales by itself, and is imported later."""
        kind = next(one for one in type(scaler).__mro__ if "scale" in vars(one))
        if kind not in hooked:
            hooked.add(kind)
            patch.set(kind, "scale", thread.telling(vars(kind)["scale"], session.losses.scaled))

    @functools.wraps(scaler_step)
    def counted_step(self: Any, optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> Any:
        updates = session.updates_made
        result = scaler_step(self, optimizer, *args, **kwargs)
        if session.updates_made == updates and get_ident() == thread.id:
            session.skipped_updates += 1
        return result

    call_behind(patch, torch.amp.GradScaler, "__init__", made)
    patch.set(torch.amp.GradScaler, "step", counted_step)

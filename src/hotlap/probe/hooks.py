"""Puts the probe's ears on torch: one `Patch` that can take them all off again."""

import functools
import random
import sys
from collections.abc import Callable
from threading import get_ident, main_thread
from typing import Any

import torch
from torch.optim import optimizer as optimizer_module
from torch.utils.data import DataLoader, dataloader

from hotlap.levers.lever import Patch
from hotlap.probe import clock as phases
from hotlap.probe import collectives
from hotlap.probe.session import Session


def install(session: Session, patch: Patch) -> None:
    """Report everything that belongs to a training step to `session`."""
    thread = _Thread()
    _hook_modules(session, patch, thread)
    _hook_backward(session, patch, thread)
    _hook_optimizers(session, patch, thread)
    _hook_scaler(session, patch)
    _hook_loaders(session, patch, thread)
    _hook_constructors(session, patch)
    _hook_state(session, patch)
    collectives.install(session.collectives, patch, thread, session.group_made)
    if session.plan.reseed:
        _hook_seeds(session.plan.reseed, patch)


class _Thread:
    """The thread that trains: the main one, unless the first backward pass is called from another."""

    def __init__(self) -> None:
        self.id = main_thread().ident
        self._sure = False

    def trains(self) -> None:
        if not self._sure:
            self.id, self._sure = get_ident(), True


def _hook_modules(session: Session, patch: Patch, thread: _Thread) -> None:
    """Outermost module calls are the forward phase.

    A wrapper around `Module.__call__`, not torch's global module hooks: those send every submodule down the slow path
    of `_call_impl` (about 2 us each), while this adds one branch to the inner calls.
    """
    call = torch.nn.Module.__call__
    clock, aside = session.clock, session.aside
    is_grad_enabled = torch.is_grad_enabled
    is_compiling = torch.compiler.is_compiling

    def __call__(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 - it becomes that method
        if session.in_forward or is_compiling() or get_ident() != thread.id:
            return call(self, *args, **kwargs)
        session.in_forward = True
        looks = not (is_grad_enabled() and self.training)
        clock.enter(phases.FORWARD)
        if looks:
            aside.looks()
        else:
            aside.trains()
        try:
            result = call(self, *args, **kwargs)
        finally:
            session.in_forward = False
            clock.leave()
            if looks:
                aside.looked()
        session.forward_made(self, args, kwargs, result)
        return result

    patch.set(torch.nn.Module, "__call__", __call__)


def _hook_backward(session: Session, patch: Patch, thread: _Thread) -> None:
    books = session.collectives

    def timed(function: Callable[..., Any], *, losses: bool) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if session.in_backward:
                return function(*args, **kwargs)
            thread.trains()
            roots = args[0] if args else kwargs.get("tensors", kwargs.get("outputs"))
            session.in_backward = True
            stop_listening = books.listen(roots)
            session.clock.enter(phases.BACKWARD)
            try:
                result = function(*args, **kwargs)
            finally:
                if stop_listening is not None:
                    books.heard()
                    stop_listening()
                session.in_backward = False
                session.clock.leave()
            session.backward_made(roots if losses else None)
            return result

        return wrapper

    patch.set(torch.autograd, "backward", timed(torch.autograd.backward, losses=True))
    patch.set(torch.autograd, "grad", timed(torch.autograd.grad, losses=False))


class _Steps:
    """Hears of optimizer steps; of nested ones (an optimizer that wraps another) only the outermost counts."""

    def __init__(self, session: Session, thread: _Thread) -> None:
        self._session = session
        self._thread = thread
        self._depth = 0

    def before(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if get_ident() != self._thread.id:
            return
        self._depth += 1
        if self._depth == 1:
            self._session.clock.enter(phases.OPTIMIZER)
            if len(args) > 1 or kwargs.get("closure") is not None:
                self._session.facts.used_closure(optimizer)
            self._session.update_begins(optimizer)

    def after(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if get_ident() != self._thread.id or not self._depth:
            return
        self._depth -= 1
        if self._depth == 0:
            self._session.clock.leave()
            self._session.update_made(optimizer)


def _hook_optimizers(session: Session, patch: Patch, thread: _Thread) -> None:
    steps = _Steps(session, thread)
    patch.on_undo(optimizer_module.register_optimizer_step_pre_hook(steps.before).remove)
    patch.on_undo(optimizer_module.register_optimizer_step_post_hook(steps.after).remove)

    zero_grad = torch.optim.Optimizer.zero_grad

    @functools.wraps(zero_grad)
    def timed_zero_grad(self: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> Any:
        if get_ident() != thread.id:
            return zero_grad(self, *args, **kwargs)
        session.clock.enter(phases.OPTIMIZER)
        try:
            return zero_grad(self, *args, **kwargs)
        finally:
            session.clock.leave()

    patch.set(torch.optim.Optimizer, "zero_grad", timed_zero_grad)


def _hook_scaler(session: Session, patch: Patch) -> None:
    """A step that a GradScaler leaves out is no step, but it is counted."""
    scaler_step = torch.amp.GradScaler.step

    @functools.wraps(scaler_step)
    def counted_step(self: Any, optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> Any:
        updates = session.updates_made
        result = scaler_step(self, optimizer, *args, **kwargs)
        if session.updates_made == updates:
            session.skipped_updates += 1
        return result

    patch.set(torch.amp.GradScaler, "step", counted_step)


def _hook_loaders(session: Session, patch: Patch, thread: _Thread) -> None:
    kind = dataloader._BaseDataLoaderIter
    next_batch = kind.__next__
    begin = DataLoader.__iter__
    clock, aside = session.clock, session.aside

    def __next__(self: Any) -> Any:  # noqa: N807 - it becomes that method
        if get_ident() != thread.id:
            return next_batch(self)
        clock.enter(phases.INPUT)
        aside.draws()
        try:
            batch = session.replay(self) if session.replaying else next_batch(self)
        finally:
            clock.leave()
        session.batch_drawn(self, batch)
        return batch

    @functools.wraps(begin)
    def __iter__(self: "DataLoader[Any]") -> Any:  # noqa: N807 - it becomes that method
        if get_ident() != thread.id:
            return begin(self)
        clock.enter(phases.INPUT)
        aside.draws()
        try:
            iterator = begin(self)
        finally:
            clock.leave()
        session.loader_started(self, iterator)
        return iterator

    patch.set(kind, "__next__", __next__)
    patch.set(DataLoader, "__iter__", __iter__)


def _hook_constructors(session: Session, patch: Patch) -> None:
    def noting(kind: type[Any], note: Callable[[Any], Any]) -> None:
        construct = kind.__init__

        @functools.wraps(construct)
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - it becomes that method
            construct(self, *args, **kwargs)
            note(self)

        patch.set(kind, "__init__", __init__)

    noting(DataLoader, session.facts.made_loader)
    noting(torch.optim.Optimizer, session.optimizer_constructed)


def _hook_state(session: Session, patch: Patch) -> None:
    """Choices that the script makes on purpose, which levers must respect."""

    def noting(owner: Any, name: str, note: Callable[[], None]) -> None:
        function = getattr(owner, name)

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            note()
            return function(*args, **kwargs)

        patch.set(owner, name, wrapper)

    noting(torch, "set_num_threads", lambda: session.facts.called("torch.set_num_threads"))
    noting(torch, "compile", session.compile_called)


def _hook_seeds(offset: int, patch: Patch) -> None:
    """Other seeds for a script that sets its own: `offset` is added to each."""

    def shifted(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(seed: Any = None, *args: Any, **kwargs: Any) -> Any:
            return function(seed + offset if isinstance(seed, int) else seed, *args, **kwargs)

        return wrapper

    patch.set(torch, "manual_seed", shifted(torch.manual_seed))
    patch.set(random, "seed", shifted(random.seed))
    if "numpy" in sys.modules:
        import numpy as np

        patch.set(np.random, "seed", shifted(np.random.seed))
        patch.set(np.random, "default_rng", shifted(np.random.default_rng))

    manual_seed = torch.Generator.manual_seed

    class Generator(torch.Generator):
        def manual_seed(self, seed: int) -> torch.Generator:
            return manual_seed(self, seed + offset)

    patch.set(torch, "Generator", Generator)

"""Backward passes that compute gradients which are cleared before any optimizer reads them."""

import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from threading import get_ident
from types import CodeType
from typing import Any

import torch

from hotlap.levers.lever import Patch
from hotlap.probe import unseen
from hotlap.probe.clock import BACKWARD
from hotlap.probe.digests import tensors
from hotlap.probe.guard import Function, around_steps
from hotlap.probe.profilers.profiler import Profiler
from hotlap.probe.sites import call_site, users_frame
from hotlap.record import CallSite, Scalar

# Looking at each gradient before and after each pass takes about a microsecond a parameter, so it is done in the first
# steps only. A step is over when each optimizer has stepped, so what one of them does more rarely is in them, too.
_PROFILED_STEPS = 32

# So many times gradients must have been cleared unread. Ours: a first look at long steps has hardly more of them.
_ENOUGH_PASSES = 3

# What models are given is looked at in steps of the warm-up: a network may be called a thousand times a step.
_CALLED_STEPS = 8


@dataclass(slots=True, eq=False)
class _Line:
    """A place of the script's that goes backward."""

    site: CallSite | None = None
    num_passes: int = 0
    seconds: float = 0.0
    num_again: int = 0
    """Passes that added to gradients of the pass before, of the same graph."""
    again_s: float = 0.0
    """What both of these take: the shorter one, by the part of its gradients that the other has."""
    got: "Counter[_Parameter]" = field(default_factory=Counter)
    """In so many passes."""
    cleared: "Counter[_Parameter]" = field(default_factory=Counter)
    """Gradients of so many passes."""
    read: "set[_Parameter]" = field(default_factory=set)
    """An optimizer stepped with their gradients, or something changed them and did not clear them: clipping, a scaler,
    an average over processes."""

    def is_unread(self, parameter: "_Parameter") -> bool:
        """Its gradients were cleared each time (those of the last passes may wait for it still), or pile up where no
        optimizer has it."""
        if parameter in self.read or parameter.is_hooked():
            return False
        if not parameter.owned and not self.cleared[parameter]:
            return self.num_passes >= _ENOUGH_PASSES
        return self.cleared[parameter] >= _ENOUGH_PASSES and 2 * self.cleared[parameter] > self.got[parameter]


@dataclass(slots=True, eq=False)
class _Parameter:
    """A parameter, and how its gradient looked when it was last seen."""

    tensor: torch.Tensor
    owned: bool = False
    """An optimizer has it."""
    pending: list[_Line] = field(default_factory=list)
    """Where the passes were made whose gradients are in it."""
    looks: tuple[int, int] | None = None
    version: int = 0
    """Of the parameter itself, when it got its gradient last."""

    def changed(self) -> bool:
        """Its gradient is not as it was when this was last asked."""
        gradient, before = self.tensor.grad, self.looks
        self.looks = None if gradient is None else (id(gradient), gradient._version)
        return before != self.looks

    def look(self, *, by_zero_grad: bool) -> None:
        """Between two passes: was its gradient cleared, or changed?"""
        if not self.changed() or not self.pending:
            return
        cleared = by_zero_grad or (self.owned and self.tensor.grad is None)
        # Who moves a parameter and is no optimizer of torch's has read its gradient, as SAM does in its first half.
        if not cleared or self.tensor._version != self.version:
            self.was_read()
        for line in self.pending:
            line.cleared[self] += 1
        self.pending.clear()

    def was_read(self) -> None:
        """What is in its gradient now."""
        for line in self.pending:
            line.read.add(self)

    def is_hooked(self) -> bool:
        """Something hears of its gradients."""
        return bool(self.tensor._backward_hooks or getattr(self.tensor, "_post_accumulate_grad_hooks", None))


class Gradients(Profiler):
    """Passive, in the first steps; then it takes its hooks off again."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: dict[tuple[CodeType, int] | None, _Line] = defaultdict(_Line)
        """None: what goes backward in no line of the user's."""
        self._parameters: dict[int, _Parameter] = {}
        self._called: set[torch.nn.Module] = set()
        self._warm = False
        self._kept: tuple[_Line, float] | None = None
        """The last backward pass, and its seconds, where it keeps its graph and no model was called since."""
        self._stepping: list[torch.optim.Optimizer] = []
        self._has_stepped = self._over = False
        self._for_inputs = False
        """A model was given something of which the gradient may be wanted: its own gradients come by the way."""

    def put_hooks(self, patch: Patch) -> None:
        """Hear of models, of backward passes, of optimizers' steps, and of what clears gradients."""
        patch.on_undo(self.patch.undo)
        self.hook(self.patch, torch.Tensor, "backward", self._backward)
        self.hear(self.session.script.on_forward, self._forward_made)
        for kind in (torch.optim.Optimizer, torch.nn.Module):
            self.hook(self.patch, kind, "zero_grad", self._clearing)
        begins, ended = (self.guarded(partial(self._do, work)) for work in (self._steps_with, self._stepped))
        around_steps(self.patch, begins, ended)
        # What is compiled computes its gradients in one piece: nothing can be saved, and hooks would be in the way.
        unseen.when_compiled(self.guarded(self._stop))

    def fields(self) -> Mapping[str, Any]:
        """None of its own: it adds to the call sites."""
        self._stop()
        return {}

    def close(self) -> None:
        """After an error nothing is claimed."""
        self._forget()
        super().close()

    # What is heard

    def _forward_made(self, module: torch.nn.Module, args: Any, kwargs: Any, result: Any) -> None:
        if module._parameters or module._modules:
            self._kept = None
        if self.session.steps < _CALLED_STEPS:
            self._do(self._knows, module, args, kwargs)

    def _backward(self, backward: Function, root: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if self.session.clock.where == BACKWARD or get_ident() != self.session.thread.id:
            return backward(root, *args, **kwargs)
        frame = users_frame(sys._getframe(1))
        line = self._lines[frame and (frame.f_code, frame.f_lasti)]
        line.site = line.site or call_site("backward")
        self._do(self._look)
        if self.session.steps >= _PROFILED_STEPS:
            self._stop()
        begun = time.perf_counter()
        result = backward(root, *args, **kwargs)
        seconds = time.perf_counter() - begun
        keeps_graph = bool(kwargs.get("retain_graph", args[1] if len(args) > 1 else False))
        self._do(self._went_backward, line, seconds, keeps_graph=keeps_graph)
        return result

    def _clearing(self, zero_grad: Function, owner: Any, *args: Any, **kwargs: Any) -> Any:
        self._do(self._look)
        result = zero_grad(owner, *args, **kwargs)
        self._do(self._look, by_zero_grad=True)
        return result

    def _do(self, work: Callable[..., None], *args: Any, **kwargs: Any) -> None:
        """Our own work within a step of the user's."""
        if not self._over and get_ident() == self.session.thread.id:
            self.session.own(lambda: work(*args, **kwargs))

    def _knows(self, module: torch.nn.Module, *given: Any) -> None:
        leaves = (one for one in tensors(given) if one.requires_grad and one.is_leaf)
        self._for_inputs |= any(not isinstance(one, torch.nn.Parameter) for one in leaves)
        if module not in self._called:
            self._called.add(module)
            for tensor in module.parameters():
                self._parameter(tensor)

    def _steps_with(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        self._look()
        self._has_stepped = True
        self._stepping.append(optimizer)
        for parameter in self._owned_by(optimizer):
            parameter.was_read()

    def _stepped(self, *_: Any) -> None:
        self._stepping.clear()

    def _went_backward(self, line: _Line, seconds: float, *, keeps_graph: bool) -> None:
        line.num_passes += 1
        # The first one of a process starts threads, and may take as long as hundreds of others.
        seconds = seconds if self._warm else 0.0
        line.seconds, self._warm = line.seconds + seconds, True
        changed = [parameter for parameter in self._parameters.values() if parameter.changed()]
        before, before_s = self._kept or (None, 0.0)
        shared = sum(one.tensor.numel() for one in changed if before in one.pending)
        if shared:
            line.num_again += 1
            line.again_s += min(seconds, before_s) * shared / sum(one.tensor.numel() for one in changed)
        self._kept = (line, seconds) if keeps_graph else None
        for parameter in changed:
            line.got[parameter] += 1
            parameter.pending.append(line)
            parameter.version = parameter.tensor._version
        for optimizer in self._stepping:  # a closure's gradients are the optimizer's
            for parameter in self._owned_by(optimizer):
                parameter.was_read()

    def _look(self, *, by_zero_grad: bool = False) -> None:
        for optimizer in self.session.facts.optimizers():
            for parameter in self._owned_by(optimizer):
                parameter.owned = True
        for parameter in self._parameters.values():
            parameter.look(by_zero_grad=by_zero_grad)

    def _owned_by(self, optimizer: torch.optim.Optimizer) -> Iterator[_Parameter]:
        return (self._parameter(tensor) for group in optimizer.param_groups for tensor in group["params"])

    def _parameter(self, tensor: torch.Tensor) -> _Parameter:
        known = self._parameters.get(id(tensor))
        if known is None:
            known = self._parameters[id(tensor)] = _Parameter(tensor)
        return known

    # What is made of it

    def _stop(self) -> None:
        if self._over:
            return
        self._over = True
        self.patch.undo()
        try:
            self._note()
        finally:
            self._forget()

    def _forget(self) -> None:
        self._over = True
        for known in (self._parameters, self._lines, self._called):
            known.clear()

    def _note(self) -> None:
        """Lines that compute gradients which nobody needs, as call sites."""
        # Without a step there is no optimizer of torch's, and whoever updates the parameters reads their gradients.
        # Processes that train together exchange them.
        if not self._has_stepped or self._for_inputs or self.session.collectives.active:
            return
        num_steps = max(1, min(self.session.steps, _PROFILED_STEPS))
        all_s = sum(line.seconds for line in self._lines.values()) or 1.0
        for line in self._lines.values():
            if line.site is not None and line.num_again:
                again: dict[str, Scalar] = {
                    "again": line.num_again / num_steps,
                    "again_part": line.again_s / all_s,
                }
                self.session.facts.call_sites.append(replace(line.site, detail=again))
            unread = [parameter for parameter in line.got if line.is_unread(parameter)]
            if line.site is not None and unread:
                detail: dict[str, Scalar] = {
                    "parameters": len(unread),
                    "unneeded": sum(parameter.tensor.numel() for parameter in unread),
                    "elements": sum(parameter.tensor.numel() for parameter in line.got),
                    "seconds": line.seconds / num_steps,
                    "owned": all(parameter.owned for parameter in unread),
                }
                self.session.facts.call_sites.append(replace(line.site, detail=detail))

"""Backward passes that compute gradients which are cleared before any optimizer reads them."""

import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from operator import itemgetter
from threading import get_ident
from types import CodeType
from typing import TYPE_CHECKING, Any

import torch
from torch.optim import optimizer as optimizer_module

from hotlap.levers.lever import Patch
from hotlap.probe import unseen
from hotlap.probe.guard import Function
from hotlap.probe.profilers.modules import results
from hotlap.probe.profilers.profiler import Profiler
from hotlap.probe.sites import call_site, called_through, users_frame
from hotlap.record import CallSite, Scalar

if TYPE_CHECKING:
    from hotlap.probe.session import Session

# Looking at each gradient before and after each pass takes about a microsecond a parameter, so it is done in the first
# steps only. A step is over when each optimizer has stepped, so what one of them does more rarely is in them, too.
_PROFILED_STEPS = 32

# So many times gradients must have been cleared unread. Ours: a first look at long steps has hardly more of them.
_ENOUGH_PASSES = 3

# The graph is searched for parameters that no optimizer has at the first passes of a line, and behind the first results
# of a module that is called in one; later they are known.
_SEARCHED_PASSES = 3
# Where a module is called is looked at in steps of the warm-up: a network may be called a thousand times a step.
_CALLED_STEPS = 8
_MOST_NODES = 100_000

_Place = tuple[CodeType, int]


@dataclass(slots=True)
class _Line:
    """A place of the script's that goes backward; each of its passes is followed until its gradients are cleared."""

    num_passes: int = 0
    seconds: float = 0.0
    used: set[int] = field(default_factory=set)
    """Numbers of the optimizers that stepped with gradients of it."""
    got: "Counter[_Leaf]" = field(default_factory=Counter)
    """In so many passes."""
    cleared: "Counter[_Leaf]" = field(default_factory=Counter)
    """Gradients of so many passes."""
    read: "set[_Leaf]" = field(default_factory=set)
    """Something changed their gradients, and did not clear them: clipping, a scaler, an average over processes."""
    searched: int = 0
    arrivals: "list[tuple[float, dict[_Leaf, float]]]" = field(default_factory=list)
    """Of each searched pass its seconds, and when the gradients were computed: parts of these, in [0, 1]."""
    given: bool = False
    """It has arguments of its own, so an edit cannot give it any."""
    unclear: bool = False
    """Its graph is too large, or holds what is no parameter."""


@dataclass(slots=True, eq=False)
class _Leaf:
    """A parameter, and how its gradient looked when it was last seen."""

    tensor: torch.Tensor
    owners: set[int] = field(default_factory=set)
    """Numbers of the optimizers that have it."""
    pending: list[_Line] = field(default_factory=list)
    """Where the passes were made whose gradients are in it."""
    looks: tuple[int, int] | None = None
    version: int = 0
    """Of the parameter itself, when it got its gradient last."""
    cleared_by_others: bool = False
    """Neither an optimizer's nor a module's `zero_grad` cleared it."""

    def changed(self) -> bool:
        """Its gradient is not as it was when this was last asked."""
        before, self.looks = self.looks, _looks(self.tensor.grad)
        return before != self.looks

    def look(self, *, by_zero_grad: bool = False) -> None:
        """Between two passes: was its gradient cleared, or changed?"""
        if not self.changed() or not self.pending:
            return
        gradient = self.tensor.grad
        if gradient is not None and all(self in line.read for line in self.pending):
            return  # of these nothing is claimed any more, and to look for zeros would wait for the device
        kept = gradient is not None and not _is_zero(gradient)
        # Who moves a parameter and is no optimizer of torch's has read its gradient, as SAM does in its first half.
        if kept or self.tensor._version != self.version:
            for line in self.pending:
                line.read.add(self)
        if kept:
            return
        self.cleared_by_others |= not by_zero_grad
        for line in self.pending:
            line.cleared[self] += 1
        self.pending.clear()


class Gradients(Profiler):
    """Passive, in the first steps; then it takes its ears off again."""

    def __init__(self) -> None:
        super().__init__()
        self._sites: dict[_Place, CallSite | None] = {}
        self._lines: dict[_Place | None, _Line] = defaultdict(_Line)
        """None: what goes backward in no line of the user's."""
        self._steps: dict[_Place, int | None] = {}
        """Where optimizers step, and which; None: several."""
        self._leaves: dict[int, _Leaf] = {}
        self._results: Counter[_Place] = Counter()
        """Of modules that are called there, so many were searched."""
        self._below: dict[_Place, set[_Leaf] | None] = {}
        """Parameters that these depend on; None where they depend on something else as well."""
        self._stepping: list[int] = []
        self._arrived: dict[_Leaf, float] = {}
        """When its gradients were computed in the pass under way, where that is looked at."""
        self._over = False

    def install(self, session: "Session", patch: Patch) -> None:
        """Hear of backward passes, of optimizers' steps, and of what clears gradients."""
        super().install(session, patch)
        patch.on_undo(self.patch.undo)
        self.hook(self.patch, torch.Tensor, "backward", self._backward)
        self.hear(session.script.on_forward, self._forward_made)
        for kind in (torch.optim.Optimizer, torch.nn.Module):
            self.hook(self.patch, kind, "zero_grad", self._clearing)
        for hook, register in (
            (self._step_begins, optimizer_module.register_optimizer_step_pre_hook),
            (self._step_ends, optimizer_module.register_optimizer_step_post_hook),
        ):
            self.patch.on_undo(register(unseen.never_compiled(self.guarded(hook))).remove)
        # What is compiled computes its gradients in one piece: nothing can be saved, and hooks would be in the way.
        unseen.when_compiled(self.guarded(self._stop))

    def fields(self) -> Mapping[str, Any]:
        """None of its own: it adds to the call sites."""
        self._stop()
        return {}

    # What is heard

    def _forward_made(self, module: torch.nn.Module, args: Any, kwargs: Any, result: Any) -> None:
        if self._over or self.session.steps >= _CALLED_STEPS:
            return
        if torch.is_grad_enabled() and not called_through():
            place = self._place("no_grad")
            if place is not None and self._results[place] < _SEARCHED_PASSES:
                self._results[place] += 1
                self._do(lambda: self._look_below(place, results(result)))

    def _backward(self, backward: Function, root: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if self.session.in_backward or get_ident() != self.session.thread.id:
            return backward(root, *args, **kwargs)
        place = self._place("backward")
        self._do(lambda: self._goes_backward(root, place, given=bool(args or kwargs.keys() - {"retain_graph"})))
        begun = time.perf_counter()
        result = backward(root, *args, **kwargs)
        seconds = time.perf_counter() - begun
        self._do(lambda: self._went_backward(self._lines[place], seconds))
        return result

    def _clearing(self, zero_grad: Function, owner: Any, *args: Any, **kwargs: Any) -> Any:
        self._do(self._look)
        result = zero_grad(owner, *args, **kwargs)
        self._do(lambda: self._look(by_zero_grad=True))
        return result

    def _step_begins(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        place = self._place("optimizer.step")
        self._do(lambda: self._steps_with(optimizer, place))

    def _step_ends(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if self._stepping and get_ident() == self.session.thread.id:
            self._stepping.pop()

    def _do(self, work: Callable[[], None]) -> None:
        """Our own work within a step of the user's."""
        if not self._over and get_ident() == self.session.thread.id:
            self.session.own(work)

    def close(self) -> None:
        """After an error nothing is claimed."""
        self._forget()
        super().close()

    def _steps_with(self, optimizer: torch.optim.Optimizer, place: _Place | None) -> None:
        self._know_owners()
        self._look()
        number = self.session.facts.made_optimizer(optimizer)
        self._stepping.append(number)
        for leaf in self._leaves.values():
            if number in leaf.owners:
                for line in leaf.pending:
                    line.used.add(number)
        if place is not None and self._steps.setdefault(place, number) != number:
            self._steps[place] = None  # of several, by turns

    def _goes_backward(self, root: torch.Tensor, place: _Place | None, *, given: bool) -> None:
        """A backward pass is about to begin from `root`; `given`: with more than `retain_graph`."""
        if self.session.steps >= _PROFILED_STEPS:
            self._stop()
            return
        self._arrived.clear()
        self._know_owners()
        line = self._lines[place]
        line.given |= given
        if place is not None and line.searched < _SEARCHED_PASSES:
            line.searched += 1
            below = self._leaves_below([root])
            line.unclear |= below is None
            # A device computes them later than the host says so.
            for node, leaf in (below or {}).items() if self.session.facts.device().type == "cpu" else ():
                node.register_prehook(partial(self.guarded(self._arrives), leaf))
        self._look()

    def _place(self, calls: str) -> _Place | None:
        """Where in the user's source we were called; the first time there, the call site is noted as well."""
        frame = users_frame(sys._getframe(1))
        if frame is None:
            return None
        place = (frame.f_code, frame.f_lasti)
        if place not in self._sites:
            self._sites[place] = call_site(calls)
        return place if self._sites[place] is not None else None

    def _look_below(self, place: _Place, tensors: list[torch.Tensor]) -> None:
        found, known = self._leaves_below(tensors), self._below.setdefault(place, set())
        self._below[place] = None if known is None or found is None else known.union(found.values())

    def _leaves_below(self, roots: list[torch.Tensor]) -> dict[Any, _Leaf] | None:
        """Node of the graph -> the parameter that it is of; None where the graph is too large, or holds a leaf that is
        neither a parameter nor an optimizer's."""
        seen: set[Any] = {None}
        found: dict[Any, _Leaf] = {}
        todo: list[Any] = [root.grad_fn for root in roots]
        while todo:
            node = todo.pop()
            if node in seen:
                continue
            seen.add(node)
            tensor = getattr(node, "variable", None)
            if tensor is not None:
                if not isinstance(tensor, torch.nn.Parameter) and id(tensor) not in self._leaves:
                    return None
                found[node] = self._leaf(tensor)
            if len(seen) > _MOST_NODES:
                return None
            todo += [below for below, _ in node.next_functions]
        return found

    def _arrives(self, leaf: _Leaf, gradients: Any) -> None:
        self._arrived[leaf] = time.perf_counter()

    def _went_backward(self, line: _Line, seconds: float) -> None:
        if self._arrived and seconds > 0:
            begun = time.perf_counter() - seconds
            parts = {leaf: min(1.0, (at - begun) / seconds) for leaf, at in self._arrived.items()}
            line.arrivals.append((seconds, parts))
        line.num_passes += 1
        line.seconds += seconds
        line.used.update(self._stepping)  # a closure's gradients are the optimizer's
        for leaf in self._leaves.values():
            if leaf.changed():
                line.got[leaf] += 1
                leaf.pending.append(line)
                leaf.version = leaf.tensor._version

    def _know_owners(self) -> None:
        facts = self.session.facts
        for optimizer in facts.optimizers():
            number = facts.made_optimizer(optimizer)
            for group in optimizer.param_groups:
                for tensor in group["params"]:
                    self._leaf(tensor).owners.add(number)

    def _leaf(self, tensor: torch.Tensor) -> _Leaf:
        leaf = self._leaves.get(id(tensor))
        if leaf is None:
            leaf = self._leaves[id(tensor)] = _Leaf(tensor, looks=_looks(tensor.grad))
        return leaf

    def _look(self, *, by_zero_grad: bool = False) -> None:
        for leaf in self._leaves.values():
            leaf.look(by_zero_grad=by_zero_grad)

    # What is made of it

    def _stop(self) -> None:
        if self._over:
            return
        self._over = True
        self.patch.undo()
        try:
            self._look()
            self._note()
        finally:
            self._forget()

    def _forget(self) -> None:
        self._over = True
        for known in (self._leaves, self._lines, self._below, self._arrived):
            known.clear()

    def _note(self) -> None:
        found = [site for place, line in self._lines.items() if place for site in self._judged(place, line)]
        steps = [
            replace(site, detail={"steps": number})
            for place, number in self._steps.items()
            if number is not None and (site := self._sites[place]) is not None
        ]
        if found:
            self.session.facts.call_sites += [*found, *steps, *self._without_need()]

    def _without_need(self) -> Iterator[CallSite]:
        """Calls of modules whose results a gradient goes through, and depend on nothing that an optimizer has."""
        reached = {leaf for line in self._lines.values() for leaf in line.got}
        for place, below in self._below.items():
            site = self._sites[place]
            if site and below and not reached.isdisjoint(below) and not any(leaf.owners for leaf in below):
                yield replace(site, detail={"unneeded": sum(leaf.tensor.numel() for leaf in below)})

    def _judged(self, place: _Place, line: _Line) -> Iterator[CallSite]:
        """The line as a call site, if gradients are computed there that nobody needs."""
        site = self._sites[place]
        spare = [leaf for leaf in line.got if line.used.isdisjoint(leaf.owners)]
        unread = all(_is_unread(leaf, line) and not _may_be_read(leaf, line) for leaf in spare)
        # Without a step there is no optimizer of torch's, and whoever updates the parameters reads their gradients.
        # Processes that train together exchange them.
        if site is None or not spare or not unread or not self._steps or self.session.collectives.active:
            return
        if line.unclear or (line.given and line.used):
            return
        detail: dict[str, Scalar] = {
            "needs": " ".join(str(number) for number in sorted(line.used)),
            "unneeded": sum(leaf.tensor.numel() for leaf in spare),
            "elements": sum(leaf.tensor.numel() for leaf in line.got),
            "seconds": line.seconds / max(1, min(self.session.steps, _PROFILED_STEPS)),
            "owned": all(leaf.owners for leaf in spare),
        }
        if line.arrivals:
            # Without the longer half: what was held up somewhere has other parts.
            passes = sorted(line.arrivals, key=itemgetter(0))[: len(line.arrivals) // 2 + 1]
            detail["until"] = max(parts.get(leaf, 0.0) for leaf in spare for _, parts in passes)
        yield replace(site, detail=detail)


def _is_unread(leaf: _Leaf, line: _Line) -> bool:
    """Its gradients were cleared, each time; those of the last passes may wait for it still.

    A parameter that no optimizer has may just pile them up.
    """
    if not leaf.owners and not line.cleared[leaf]:
        return line.num_passes >= _ENOUGH_PASSES
    return line.cleared[leaf] >= _ENOUGH_PASSES and 2 * line.cleared[leaf] > line.got[leaf]


def _may_be_read(leaf: _Leaf, line: _Line) -> bool:
    """By something that changed it (clipping?), by who clears what no optimizer of torch's has, or by a hook."""
    others = not leaf.owners and leaf.cleared_by_others
    hooked = leaf.tensor._backward_hooks or getattr(leaf.tensor, "_post_accumulate_grad_hooks", None)
    return leaf in line.read or others or bool(hooked)


def _looks(gradient: torch.Tensor | None) -> tuple[int, int] | None:
    """Tells a gradient from another one, and from itself changed in place, without keeping it alive."""
    return None if gradient is None else (id(gradient), gradient._version)


def _is_zero(gradient: torch.Tensor) -> bool:
    if gradient.layout is not torch.strided:
        return False  # not looked into: taken for changed
    return not bool(gradient.any())

"""native_steps(): known models and optimizers of a script run natively from now on, and everything else as before.

Three places of torch are replaced, and `zero_grad` for its own overhead. The outermost `model(x)` of a model that
`compile_step` knows becomes one node of autograd, whose forward and backward are native calls, and so does a loss
module; from the one to the other `backward()` goes without autograd's engine. `optimizer.step()` of a known optimizer
becomes one native call on the `.grad` tensors. Between them all is torch's own: other losses, hooks, clipping,
accumulation, schedulers, `state_dict`.
"""

import weakref
from collections.abc import Callable
from functools import cache, partial, wraps
from itertools import chain
from threading import get_ident, main_thread
from typing import Any, Generic, Literal, TypeVar, cast, get_args

import torch
from torch import nn, optim
from torch.optim import optimizer as optimizer_module

from hotlap import at_work
from hotlap.errors import UserError
from hotlap.native import core
from hotlap.small.losses import KINDS, NativeLoss
from hotlap.small.network import Network
from hotlap.small.node import ByIdentity, transforms_are_active
from hotlap.small.optimizers import METHODS
from hotlap.small.program import Unsupported
from hotlap.small.script_backward import straight, straightest
from hotlap.small.updates import NativeUpdate

Set = Callable[[Any, str, Any], object]
"""`setattr`, or something that remembers what was there before."""

Parts = Literal["all", "model", "optimizer"]
"""Of a step: forward and backward, the update, or both."""

Holding = TypeVar("Holding", Network, NativeLoss)

MAX_TRACED = 16
"""A model that is another at each call (its own attributes change) is left to torch after so many tracings."""


def native_steps(parts: Parts = "all") -> None:
    """Run what is known natively from now on, in this process.

    `parts`: "model" leaves the updates to torch, "optimizer" leaves it forward and backward.

    Raises:
        UserError: there are no such parts.
    """
    if parts not in get_args(Parts):
        raise UserError(f"native_steps takes {', '.join(map(repr, get_args(Parts)))}, not {parts!r}.")
    steps = known_steps()
    at_work.register("native_steps", steps)
    if not steps.installed:
        steps.install(setattr, parts)


@cache
def known_steps() -> "NativeSteps":
    """The one object of this process."""
    return NativeSteps()


class Served:
    """What a whole script is served with: whether it is at work, as hotlap.at_work asks."""

    def __init__(self) -> None:
        self.at_work = False
        """Something ran natively: not all was left to torch."""
        self.notes: list[str] = []
        """Why something was left to torch, each reason once."""

    def _note(self, reason: str) -> None:
        if reason not in self.notes:
            self.notes.append(reason)
            at_work.note(reason)

    def _hotlap_idle(self) -> str | None:
        return None if self.at_work else " ".join(self.notes)

    def _hotlap_settled(self) -> bool:
        return True


class NativeSteps(Served):
    """What was found out about the models and optimizers of this process; it outlives being switched off and on."""

    def __init__(self) -> None:
        super().__init__()
        self.installed = False
        self._models: ByIdentity[nn.Module, _Known[Network]] = ByIdentity()
        self._losses: ByIdentity[nn.Module, _Known[NativeLoss]] = ByIdentity()
        self._updates: ByIdentity[optim.Optimizer, NativeUpdate] = ByIdentity()
        self._inside = False
        self._thread = main_thread().ident

    def install(self, put: Set, parts: Parts = "all") -> None:
        """Replace, through `put`, what `Module.__call__` calls; `step` and `zero_grad` of the known optimizers."""
        if core().module is None:
            self._note(core().why_not)
        if self.installed or core().module is None:
            return
        put(self, "installed", True)
        if parts != "optimizer":
            put(nn.Module, "_call_impl", self._call_of(nn.Module._call_impl))
            name = "_engine_run_backward"
            put(torch.autograd, name, straight(getattr(torch.autograd, name), _is_plain_torch))
            put(torch.Tensor, "backward", straightest(torch.Tensor.backward, _is_plain_torch))
        if parts == "model":
            return
        put(optim.Optimizer, "zero_grad", self._zero_grad_of(optim.Optimizer.zero_grad))
        for kind, step in [(kind, _hooked(kind)) for kind in METHODS]:  # first all: one inherits another's
            put(kind, "step", self._step_of(kind, step))

    def take_over(self, optimizer: optim.Optimizer, put: Set) -> None:
        """An optimizer whose `step` a scheduler wrapped before this was installed: wrap it again, with ours inside."""
        wrapper = vars(optimizer).get("step")
        if type(optimizer) not in METHODS or not hasattr(wrapper, "_wrapped_by_lr_sched"):
            return
        reference = weakref.ref(optimizer)
        ours = type(optimizer).step

        @wraps(ours)
        def step(*args: Any, **kwargs: Any) -> Any:
            alive: Any = reference()
            alive._opt_called = True
            return ours(alive, *args, **kwargs)

        step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
        put(optimizer, "step", step)

    # -- model(x) ----------------------------------------------------------------------------------------------------

    def _call_of(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def _call_impl(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if self._inside or get_ident() != self._thread:
                return call(module, *args, **kwargs)
            if len(args) == 1 and not kwargs and type(args[0]) is torch.Tensor and torch.is_grad_enabled():
                network = self._made(Network, self._models, module, call)
                # To know whether it takes `x` the model's forward may be looked at, or tried.
                if network is not None and self._apart(network.takes, args[0]):
                    self.at_work = True
                    return network(args[0])
            if len(args) == 2 and not kwargs and type(module) in KINDS and torch.is_grad_enabled():
                loss = self._made(NativeLoss, self._losses, module, call)
                if loss is not None and loss.takes(*args):
                    return loss(module, *args)
            self._inside = True
            try:
                return call(module, *args, **kwargs)
            finally:
                self._inside = False

        return _call_impl

    def _apart(self, what: Callable[..., Any], *args: Any) -> Any:
        """`what(*args)`, of which nothing is taken for a call of the script's."""
        self._inside = True
        try:
            return what(*args)
        finally:
            self._inside = False

    def _made(
        self,
        kind: type[Holding],
        table: "ByIdentity[nn.Module, _Known[Holding]]",
        module: nn.Module,
        call: Callable[..., Any],
    ) -> Holding | None:
        """What was made of a module, anew where it is not as it was; None where torch has to."""
        known = table.get(module)
        if known is None:
            known = table.put(module, _Known())
        if known.refused or not _is_plain_torch():
            return None
        if known.made is None or not known.made.holds():
            known.times += 1
            known.made = None
            try:
                if known.times > MAX_TRACED:
                    raise Unsupported("it is another one again and again.")
                if vars(module).get("_compiled_call_impl") is not None:
                    raise Unsupported("it is compiled.")
                known.made = self._apart(kind, module, partial(self._apart, call))
            except Unsupported as reason:
                # One that is refused in training (a dropout) is not asked again; one that trains nothing is not told.
                known.refused = True
                if next(module.parameters(), None) is not None:
                    self._note(f"{type(module).__name__} is left to torch: {reason}")
        return known.made

    # -- optimizer.step() --------------------------------------------------------------------------------------------

    def _step_of(self, kind: type[optim.Optimizer], original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def step(optimizer: optim.Optimizer, *args: Any, **kwargs: Any) -> Any:
            if args or kwargs or type(optimizer) is not kind or not self.installed or not _is_plain_update(optimizer):
                return original(optimizer, *args, **kwargs)
            update = self._update_of(optimizer)
            if update is None:
                return original(optimizer)
            of_all, hooks = optimizer_module, cast(Any, optimizer)
            given: tuple[Any, Any] = (optimizer,), {}
            for hook in chain(of_all._global_optimizer_pre_hooks.values(), hooks._optimizer_step_pre_hooks.values()):
                given = hook(optimizer, *given) or given
            if given != ((optimizer,), {}) or not self._update(optimizer, update):
                cast(Any, original).__wrapped__(*given[0], **given[1])  # torch's own, which runs no hooks
            for hook in chain(hooks._optimizer_step_post_hooks.values(), of_all._global_optimizer_post_hooks.values()):
                hook(optimizer, *given)
            return None

        step.hooked = True  # type: ignore[attr-defined] # torch is not to wrap it once more
        return step

    def _update(self, optimizer: optim.Optimizer, update: NativeUpdate) -> bool:
        """Do the update; False where torch has to."""
        self.at_work = True
        if update.step():
            return True
        self._updates.forget(optimizer)  # something is not as it was: look again, once
        again = self._update_of(optimizer)
        return again is not None and again.step()

    def _update_of(self, optimizer: optim.Optimizer) -> NativeUpdate | None:
        update = self._updates.get(optimizer)
        if update is None:
            try:
                update = self._updates.put(optimizer, NativeUpdate(optimizer))
            except Unsupported as reason:
                self._note(f"{type(optimizer).__name__}.step is left to torch: {reason}")
        return update

    def _zero_grad_of(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def zero_grad(optimizer: optim.Optimizer, set_to_none: bool = True) -> None:
            if not set_to_none or torch._C._autograd._profiler_enabled():
                original(optimizer, set_to_none)
                return
            for group in optimizer.param_groups:
                for p in group["params"]:
                    p.grad = None

        return zero_grad


class _Known(Generic[Holding]):
    """What is known about one module."""

    def __init__(self) -> None:
        self.made: Holding | None = None
        self.refused = False
        self.times = 0


def _hooked(kind: Any) -> Any:
    """`kind.step` in torch's wrapper that runs the step hooks; torch puts it on with the first optimizer of a kind."""
    if not getattr(kind.step, "hooked", False):
        kind.step = optim.Optimizer.profile_hook_step(kind.step)
        kind.step.hooked = True
    return kind.step


def _is_plain_torch() -> bool:
    """No mode, transform, hook or autocast that would have to see the operations inside of the model."""
    c, of_all_modules = torch._C, nn.modules.module
    return not (
        c._len_torch_dispatch_stack()
        or c._len_torch_function_stack()
        or transforms_are_active()
        or c._is_any_autocast_enabled()
        or of_all_modules._global_forward_hooks
        or of_all_modules._global_forward_pre_hooks
        or of_all_modules._global_backward_hooks
        or of_all_modules._global_backward_pre_hooks
        or torch.compiler.is_compiling()
        or c._get_tracing_state() is not None
    )


def _is_plain_update(optimizer: optim.Optimizer) -> bool:
    """No profiler that wants to see it, and no gradient scale of a fused optimizer."""
    own = vars(optimizer)
    return "grad_scale" not in own and "found_inf" not in own and not torch._C._autograd._profiler_enabled()

"""`loss.backward()` from a native loss straight into the native network before it, without autograd's engine.

In two places. `Tensor.backward` goes there at once, as long as `torch.autograd.backward` is torch's own: torch's way
from the one to the other took 28 to 37 us of an MNIST perceptron's 420 to 450 (medians of three runs, in turn in one
process), for its code is out of the caches by then. Whoever puts something in place of `torch.autograd.backward`, as
hotlap's probe does, is to see each backward pass; behind it only the engine is left out.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

from hotlap.small import losses, network

LOSS: Any = losses.Loss._backward_cls
PASS: Any = network.Pass._backward_cls


def _telling(register: Callable[..., Any]) -> Callable[..., Any]:
    """What puts a hook on a node of these two: the node has none to show, so that it is told."""

    @wraps(register)
    def registered(node: Any, *args: Any, **more: Any) -> Any:
        node.hooked = True
        return register(node, *args, **more)

    return registered


for _kind in (LOSS, PASS):
    _kind.hooked = False
    for _name in ("register_hook", "register_prehook"):
        setattr(_kind, _name, _telling(getattr(_kind, _name)))

Plain = Callable[[], bool]
"""Whether no mode or hook of torch's is on that would have to see what is left out."""


def straight(run: Callable[..., Any], is_plain_torch: Plain) -> Callable[..., Any]:
    """torch.autograd's `_engine_run_backward` that leaves the engine out where nobody but these two has a part in it.

    What it cannot see are hooks on the nodes that add to a parameter's gradient. DDP and FSDP exchange gradients by
    such hooks: where there is a process group the engine stays.
    """

    @wraps(run)
    def run_backward(outputs: Any, gradients: Any, retain_graph: bool, *others: Any, **more: Any) -> Any:
        once = len(outputs) == 1 and not retain_graph and others == (False, ()) and more.get("accumulate_grad")
        if once and _go(outputs[0], gradients[0], is_plain_torch):
            return ()
        return run(outputs, gradients, retain_graph, *others, **more)

    return run_backward


def straightest(backward: Callable[..., Any], is_plain_torch: Plain) -> Callable[..., Any]:
    """`Tensor.backward` that does the same at once, where nobody stands in for it or for `torch.autograd.backward`."""

    @wraps(backward)
    def called(loss: torch.Tensor, *args: Any, **more: Any) -> Any:
        if args or more or not _is_of(torch.autograd, torch.autograd.backward) or not _go(loss, None, is_plain_torch):
            return backward(loss, *args, **more)
        return None

    return called if _is_of(torch._tensor, backward) else backward


def _is_of(module: Any, function: Any) -> bool:
    """Whether it was written there: what others put in its place, though it has its name, has other globals."""
    return getattr(function, "__globals__", None) is vars(module)


def _go(value: torch.Tensor, gradient: torch.Tensor | None, is_plain_torch: Plain) -> bool:
    """Write the gradients of the parameters, if nothing needs the engine. A `gradient` of None is one of 1."""
    loss: Any = getattr(value, "grad_fn", None)
    if type(loss) is not LOSS or not is_plain_torch() or _may_be_hooked():
        return False
    passed = loss.given[0].grad_fn
    if type(passed) is not PASS or not _are_alone(value, loss, passed):
        return False
    _, *found = network.gradients(passed, losses.to_prediction(loss, gradient))
    for p, one in zip(passed.network.trained, found, strict=True):
        p.grad = one
    loss.over = True
    return True


def _may_be_hooked() -> bool:
    several = torch.distributed.is_available() and torch.distributed.is_initialized()
    return several or torch._C._autograd._profiler_enabled() or torch.is_anomaly_enabled()


def _are_alone(value: torch.Tensor, loss: Any, passed: Any) -> bool:
    """Nobody looks at what goes from one to the other, or at gradients on their way to the parameters."""
    prediction = loss.given[0]
    return not (loss.hooked or passed.hooked) and bool(
        value._backward_hooks is None
        and not value.retains_grad
        and prediction._backward_hooks is None
        and not prediction.retains_grad
        and prediction._version == loss.versions[0]
        and not passed.needs_input_grad[1]
        and passed.network.takes_gradients()
    )

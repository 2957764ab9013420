"""A torch module or function -> Program, or a sentence that names what is not recognised.

torch.fx records what the forward does; `lowering` translates each recorded operation.
"""

import pickle
import random
import sys
from collections.abc import Callable
from math import prod
from operator import attrgetter
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import fx, nn
from torch.overrides import TorchFunctionMode

from hotlap.errors import UserError
from hotlap.small.lowering import INPLACE, Lowering, Recorded, Rows, Sym, flattened, is_inplace, name_of
from hotlap.small.program import Program, Unsupported

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


_LAYERS = (
    *(nn.Linear, nn.Tanh, nn.ReLU, nn.LeakyReLU, nn.Sigmoid, nn.SiLU, nn.Softplus, nn.Dropout, nn.Identity, nn.Flatten),
)
"""Layers of torch's that are known: each is one function of torch's, or nothing."""


ROWS = Rows(1009)
"""The rows of any batch: a number that no script has of its own."""


class _Proxy(fx.Proxy):
    """One that tells `x += y` from `x = x + y`."""


def _recorded(what: Callable[..., Any]) -> Callable[[fx.Proxy, Any], fx.Proxy]:
    return lambda self, other: self.tracer.create_proxy("call_function", what, (self, other), {})


for _name, _operator in INPLACE.items():
    setattr(_Proxy, _name, _recorded(_operator))


class _Tracer(fx.Tracer):
    """Looks into known layers, and into functions that use modules from outside; leaves a module as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.tensors: dict[str, torch.Tensor] = {}
        """Those that operations take directly. torch.fx would set them as attributes of the module."""
        self._modes = _modes()

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """What a known layer calls is recorded in its place."""
        return type(m) not in _LAYERS and super().is_leaf_module(m, module_qualified_name)

    def path_of_module(self, mod: nn.Module) -> str:
        """A function's modules get a name inside of fx's own root, and may have no hooks either."""
        try:
            return super().path_of_module(mod)
        except NameError:
            if type(self.root) is not nn.Module:
                raise Unsupported(f"it calls a {name_of(mod)} that is no part of the module.") from None
            check_plain(mod)
            name = f"outside_{len(list(self.root.children()))}"
            self.root.add_module(name, mod)
            return name

    def proxy(self, node: fx.Node) -> fx.Proxy:
        """What stands for a result."""
        return _Proxy(node, self)

    def create_arg(self, a: Any) -> Any:
        """A tensor is read where it lies."""
        if not isinstance(a, torch.Tensor):
            return super().create_arg(a)
        if a.requires_grad and type(self.root) is not nn.Module and all(a is not p for p in self.root.parameters()):
            raise Unsupported("it takes a trained tensor that is no part of the module.")
        name = f"tensor_{len(self.tensors)}"
        self.tensors[name] = a
        return self.create_node("get_attr", name, (), {})

    def create_node(self, *args: Any, **kwargs: Any) -> fx.Node:
        """Refuses what is calculated in another mode: the graph does not tell."""
        if _modes() != self._modes:
            raise Unsupported("parts of it are calculated without gradients, or under autocast.")
        return super().create_node(*args, **kwargs)


def _modes() -> tuple[bool, ...]:
    return torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu")


class _Alone(TorchFunctionMode):
    """Refuses what is calculated of a trained tensor alone, outside of a module: its value would be recorded.

    And what would change a tensor: to trace is to run once more.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        flat, name = flattened(args, kwargs or {}), name_of(func)
        if isinstance(args[0] if args else None, torch.Tensor) and is_inplace(name, kwargs or {}):
            raise Unsupported(f"{name} changes a tensor of its own")
        alone = any(isinstance(a, torch.Tensor) and a.requires_grad for a in flat)
        if alone and name != "__get__" and not any(isinstance(a, fx.Proxy) for a in flat):
            raise Unsupported(f"{name} of a trained tensor alone, which is no parameter of the module")
        return func(*args, **kwargs or {})


def record(root: nn.Module | Callable[..., Any]) -> Recorded:
    """The operations of `root`'s forward, by torch.fx; Unsupported where fx cannot follow."""
    if torch._C._is_any_autocast_enabled():
        raise Unsupported("it is calculated under autocast.")
    of_torch, others = torch.get_rng_state(), _random_states()
    try:
        with _Alone(), torch.enable_grad():
            tracer = _Tracer()
            graph = tracer.trace(root)
    except Exception as error:
        raise Unsupported(f"torch.fx cannot follow the forward of {name_of(root)}: {error}") from error
    finally:
        draws = pickle.dumps(others) != pickle.dumps(_random_states()) or not of_torch.equal(torch.get_rng_state())
        torch.set_rng_state(of_torch)
        for module, state in others.items():
            (random.setstate if module == "random" else sys.modules[module].set_state)(state)
    if draws:
        raise Unsupported(f"the forward of {name_of(root)} draws random numbers.")
    named = {str(node.target) for node in graph.nodes if node.op in ("get_attr", "call_module")}
    return Recorded(graph, {n: attrgetter(n)(tracer.root) for n in named - tracer.tensors.keys()} | tracer.tensors)


def _random_states() -> dict[str, Any]:
    """Python's and numpy's, by the module that keeps them."""
    numpy = sys.modules.get("numpy.random")
    return {"random": random.getstate()} | ({"numpy.random": numpy.get_state()} if numpy else {})


def check_plain(root: nn.Module) -> None:
    """Refuse hooks and replaced forwards: the native core would pass them by."""
    for name, module in root.named_modules():
        for hooks in HOOKS:
            if getattr(module, hooks, None):
                raise Unsupported(f"module {name or 'at the top'} ({type(module).__name__}) has hooks ({hooks}).")
        if "forward" in vars(module):
            raise Unsupported(f"module {name or 'at the top'} ({type(module).__name__}) has its forward replaced.")


def trace_model(model: nn.Module, sample: tuple[int, ...] | None = None) -> Program:
    """The program of a model that takes one batch (R, features), or (R, *sample) and flattens it first."""
    check_plain(model)
    recorded = record(model)
    features, dtype = _first_layer(recorded)
    sample = (features,) if sample is None else sample
    if prod(sample) != features:
        raise Unsupported(f"the model takes {features} features, but samples of the shape {sample} come in.")
    lowering = Lowering(recorded, Program(dtype), lead=(ROWS,))
    inputs = [node for node in recorded.graph.nodes if node.op == "placeholder"]
    required = [node for node in inputs if not node.args]
    if len(required) != 1:
        raise Unsupported(f"the forward of {name_of(model)} takes {len(required)} inputs; one batch is expected.")
    lowering.program.input = lowering.program.value(features)
    lowering.known[required[0]] = Sym(lowering.program.input, (ROWS, *sample))
    for node in inputs:
        if node.args:
            lowering.known[node] = node.args[0]
    program = lowering.run()
    if not program.trained:
        raise Unsupported("the model has no parameter to train.")
    return program


def why_no_rows(program: Program, model: nn.Module, sample: tuple[int, ...]) -> str:
    """A sentence; "" if the model takes a batch (R, *sample) as (R, features): it flattens it before all else."""
    if sample not in program.samples:
        try:
            again = trace_model(model, sample)
            same = again.description() == program.description() and again.output_squeezed == program.output_squeezed
            program.samples[sample] = "" if same else f"with samples of the shape {sample} it computes something else."
        except Unsupported as error:
            program.samples[sample] = str(error)
    return program.samples[sample]


def trace_field(func: nn.Module | Callable[..., Any], y: torch.Tensor) -> Program:
    """The program of dy/dt = func(t, y) for states like `y`."""
    if isinstance(func, nn.Module):
        check_plain(func)
    recorded = record(func)
    inputs = [node for node in recorded.graph.nodes if node.op == "placeholder"]
    if any(str(node.target).startswith("*") for node in inputs):
        raise Unsupported(f"{name_of(func)} takes any number of arguments.")
    if len(inputs) < 2 or any(not node.args for node in inputs[2:]):
        raise UserError(
            f"odeint calls func(t, y), as torchdiffeq does, but {name_of(func)} takes "
            f"({', '.join(str(node.target) for node in inputs)}). NeuralODE takes a function of y alone as well."
        )
    program = Program(y.dtype)
    lowering = Lowering(recorded, program, lead=tuple(y.shape[:-1]))
    program.time = program.value(1, single=True)
    program.input = program.value(y.shape[-1] if y.dim() else 1)
    lowering.known[inputs[0]] = Sym(program.time, (), single=True)
    lowering.known[inputs[1]] = Sym(program.input, tuple(y.shape))
    for node in inputs[2:]:
        lowering.known[node] = node.args[0]
    lowering.run()
    same_width = program.values[program.output][0] == program.values[program.input][0]
    if not same_width or program.output_squeezed != (y.dim() == 0):
        raise Unsupported(f"{name_of(func)} returns another shape than its state's {tuple(y.shape)}.")
    return program


def _first_layer(recorded: Recorded) -> tuple[int, torch.dtype]:
    layers = (node for node in recorded.graph.nodes if node.target is F.linear)
    read = (recorded.found[str(one.target)] for node in layers for one in node.all_input_nodes if one.op == "get_attr")
    for tensor in read:
        if tensor.dim() == 2:
            return tensor.shape[1], tensor.dtype
    raise Unsupported("the model has no Linear layer, so the width of its input is not known.")

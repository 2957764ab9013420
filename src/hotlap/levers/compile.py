"""compile: the model is compiled by TorchInductor."""

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self, final

from hotlap.levers.lever import Lever, Numerics, Patch, Scope, cannot_write
from hotlap.levers.models import named_models
from hotlap.record import Ceiling, Machine, Phase, Run
from hotlap.source import Edit, InsertBefore

Mode = Literal["default", "reduce-overhead", "max-autotune"]

# What the modes of torch.compile stand for (torch._inductor.list_mode_options): a mode and other options cannot be
# given together. Random numbers are drawn as without compiling, so that the losses can be compared step by step.
_OPTIONS: dict[str, str] = {
    "default": '{"fallback_random": True}',
    "reduce-overhead": '{"triton.cudagraphs": True, "fallback_random": True}',
    "max-autotune": '{"max_autotune": True, "coordinate_descent_tuning": True, "triton.cudagraphs": True, '
    '"fallback_random": True}',
}

# With more different shapes than this a graph for each, or one for all, is compiled again and again
# (torch._dynamo.config.recompile_limit is 8).
_MOST_SHAPES = 8

# Calls in training without a new graph after which nothing more is expected. Longer than the usual warm-up, so that
# compiling is timed as the one-time cost that it is.
_SETTLED_CALLS = 30

# A graph for each of two sizes (the last batch of an epoch) in training and in a validation is nothing to speak of.
_MANY_GRAPHS = 4


@final
@dataclass(frozen=True, slots=True)
class Compile(Lever):
    """Calls `model.compile(...)` before the optimizer is made.

    What: forward and backward pass become a few fused kernels. Random numbers are drawn as before (`fallback_random`).
    "reduce-overhead" replays the kernels as CUDA graphs; "max-autotune" also tries several kernels for each product.
    Why: elementwise operators are fused, so they pass over memory once, and Python and the dispatcher are left out.
    When it hurts: compiling takes from seconds to an hour (pytorch/pytorch#97783), which is told as one-time cost with
    the step from which on it pays. Some models are slower than without (#111182, #106466). Each new shape may compile
    again, and CUDA graphs are recorded again (#174704, #188150, #128424), so it is refused where shapes keep changing.
    Losses were wrong in silence (#113180, #187715): the gate compares them.
    """

    name: ClassVar[str] = "compile"
    scope: ClassVar[Scope] = Scope.PROCESS
    numerics: ClassVar[Numerics] = Numerics.ROUNDING

    mode: Mode = "default"
    dynamic: bool = False
    """One graph for all sizes."""

    @classmethod
    def candidates(cls, run: Run, machine: Machine) -> Sequence[Self]:
        """On a GPU all modes; for sizes known to change, one graph for all of them and no CUDA graphs."""
        if run.shapes is not None and run.shapes.num_shapes > 2:
            return (cls(dynamic=True),)
        if run.device == "cpu":
            return (cls(),)
        return (cls(), cls(mode="reduce-overhead"), cls(mode="max-autotune"))

    def rejects(self, run: Run, machine: Machine) -> str | None:
        """Present state, what it needs, changing shapes, and whether it can be written."""
        if run.compiled:
            return "The script uses torch.compile already."
        if machine.compiler is None:
            return "There is no C++ compiler with Python's headers here, which torch.compile needs."
        shapes = run.shapes
        if shapes is not None and shapes.num_shapes > _MOST_SHAPES and 2 * shapes.num_new_late > shapes.num_shapes:
            return f"The model was given {shapes.num_shapes} different shapes, and new ones keep coming."
        otherwise = "No model was seen that is called and given to its optimizer under one name in the script's source."
        return cannot_write(self, run, otherwise)

    def saves_at_most_s(self, run: Run, ceilings: Sequence[Ceiling]) -> float:
        """Forward and backward."""
        return (run.mean_phase_s(Phase.FORWARD) or 0.0) + (run.mean_phase_s(Phase.BACKWARD) or 0.0)

    def install(self, patch: Patch) -> None:
        """At the first call of each model with parameters while gradients are on."""
        import ast

        import torch
        from torch._dynamo.utils import counters

        call = torch.nn.Module.__call__
        options = ast.literal_eval(_OPTIONS[self.mode])
        dynamic = True if self.dynamic else None
        compiled: weakref.WeakSet[Any] = weakref.WeakSet()
        inside = [False]
        calls, graphs, last = [0], [0], [0]

        def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 - it becomes that method
            if inside[0] or torch.compiler.is_compiling() or not (self.training and torch.is_grad_enabled()):
                return call(self, *args, **kwargs)
            if self not in compiled and next(self.parameters(), None) is not None:
                compiled.add(self)
                self.compile(dynamic=dynamic, options=options)
            inside[0] = True
            try:
                return call(self, *args, **kwargs)
            finally:
                inside[0] = False
                calls[0] += 1
                if counters["stats"]["unique_graphs"] != graphs[0]:
                    graphs[0], last[0] = counters["stats"]["unique_graphs"], calls[0]

        def undo() -> None:
            for module in compiled:
                module._compiled_call_impl = None

        def settled() -> bool:
            _tell(patch, counters)
            return calls[0] - last[0] >= _SETTLED_CALLS or not compiled

        patch.set(torch.nn.Module, "__call__", __call__)
        patch.settled.append(settled)
        patch.on_undo(undo)

    def edits(self, run: Run) -> Sequence[Edit]:
        """A statement in front of each optimizer."""
        dynamic = "dynamic=True, " if self.dynamic else ""
        return tuple(
            InsertBefore(site=model.optimizer, code=f"{model.name}.compile({dynamic}options={_OPTIONS[self.mode]})")
            for model in named_models(run)
        )


def _tell(patch: Patch, counters: Mapping[str, Mapping[str, int]]) -> None:
    """CHILD: a model in pieces, or compiled again and again, gains less than it could: say so, once."""
    breaks = counters.get("graph_break", {})
    graphs = counters.get("stats", {}).get("unique_graphs", 0)
    found = []
    if breaks:
        reason = next(iter(breaks)).strip().splitlines()[0][:200]
        found.append(f"compile: the model leaves the compiled code at {len(breaks)} places, first because: {reason}")
    if graphs > _MANY_GRAPHS * (len(breaks) + 1):
        found.append(f"compile: {graphs} graphs were compiled; sizes or settings that change have it done again.")
    # The newest count of each kind stands.
    patch.notes[:] = [note for note in patch.notes if not note.startswith("compile: ")] + found

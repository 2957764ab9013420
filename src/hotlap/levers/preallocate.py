"""preallocate: memory for the largest batch is taken before training."""

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self, final

from msgspec import Meta

from hotlap.levers.autocasting import model_calls
from hotlap.levers.lever import Lever, Numerics, Patch, Scope
from hotlap.levers.models import cannot_name, named_models
from hotlap.record import Ceiling, Machine, Run
from hotlap.source import Edit, InsertBefore

Shape = Annotated[str, Meta(pattern=r"\A[0-9]{1,9}(x[0-9]{1,9}){0,7}\Z")]
_DTYPES = ("float32", "int64")

# As for expandable-segments, which fixes the same: it serves to order the search.
_PART = 0.25


@final
@dataclass(frozen=True, slots=True)
class Preallocate(Lever):
    """Runs forward and backward once on zeros of the largest shape: `hotlap.data.preallocate(model, shape)`.

    What: before the optimizer is made (in a trial: at the first step) the CUDA allocator takes the blocks that the
    largest batch seen needs. Gradients, buffers and the states of all random generators are put back.
    Why: with batches of changing length each longer one finds no block that fits, so the allocator gives what it has
    back to the driver and waits for the device (PyTorch's tuning guide, "Preallocate memory in case of variable input
    length").
    When it hurts: the memory is held from the start, and a batch that is longer still finds no block either. What it
    saves comes early: once the largest batch came by itself there is little left, which the comparison of later steps
    shows. State that a model keeps elsewhere than in buffers (a counter of its calls) sees one call more. Lever
    `expandable-segments` fixes the same without a batch.
    """

    name: ClassVar[str] = "preallocate"
    scope: ClassVar[Scope] = Scope.PROCESS
    numerics: ClassVar[Numerics] = Numerics.EXACT

    shape: Shape = "1"
    """"32x512"."""
    dtype: Literal["float32", "int64"] = "float32"

    @classmethod
    def candidates(cls, run: Run, machine: Machine) -> Sequence[Self]:
        """The largest batch that was seen."""
        if run.shapes is None or not run.shapes.largest or run.shapes.dtype not in _DTYPES:
            return (cls(),)
        dtype: Literal["float32", "int64"] = "int64" if run.shapes.dtype == "int64" else "float32"
        return (cls(shape="x".join(map(str, run.shapes.largest)), dtype=dtype),)

    def rejects(self, run: Run, machine: Machine) -> str | None:
        """A GPU, sizes that change, and a model that is called with one tensor."""
        return _allocator(run) or _script(run) or _batch(run) or cannot_name(self, run)

    def saves_at_most_s(self, run: Run, ceilings: Sequence[Ceiling]) -> float:
        """A part of the step."""
        return 0.0 if run.device == "cpu" or not run.step_s else _PART * run.median_step_s()

    def install(self, patch: Patch) -> None:
        """In front of the first call of each model for training."""
        import torch

        from hotlap.data import preallocate

        call = torch.nn.Module.__call__
        rehearsed: weakref.WeakSet[Any] = weakref.WeakSet()
        inside = [False]
        shape, dtype = self._sizes(), getattr(torch, self.dtype)

        def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 - it becomes that method
            if inside[0] or torch.compiler.is_compiling() or not (self.training and torch.is_grad_enabled()):
                return call(self, *args, **kwargs)
            inside[0] = True
            try:
                if self not in rehearsed:
                    rehearsed.add(self)
                    preallocate(self, shape, dtype=dtype)
                return call(self, *args, **kwargs)
            finally:
                inside[0] = False

        patch.set(torch.nn.Module, "__call__", __call__)

    def edits(self, run: Run) -> Sequence[Edit]:
        """A statement in front of each optimizer."""
        dtype = "" if self.dtype == "float32" else f", dtype=torch.{self.dtype}"
        imports = "from hotlap.data import preallocate" + ("\nimport torch" if dtype else "")
        edits: list[Edit] = []
        for model in named_models(run):
            code = f"preallocate({model.name}, {self._sizes()}{dtype})"
            edits += [*model.naming, InsertBefore(site=model.before, code=code, imports=imports)]
        return edits

    def _sizes(self) -> tuple[int, ...]:
        return tuple(map(int, self.shape.split("x")))


def _allocator(run: Run) -> str | None:
    """Has the allocator anything to gain?"""
    if run.device in ("cpu", "mps"):
        return "The CUDA allocator serves NVIDIA's GPUs; the model is elsewhere."
    if run.shapes is None or run.shapes.num_shapes <= 2:
        return "The sizes of the batches were not seen to change, so the allocator's blocks fit."
    environment = run.switches.environment if run.switches is not None else {}
    if "expandable_segments:True" in environment.get("PYTORCH_CUDA_ALLOC_CONF", ""):
        return "The allocator grows its blocks already (expandable_segments)."
    return None


def _script(run: Run) -> str | None:
    """Would one more pass be harmless?"""
    if run.world_size > 1:
        return "Several processes train together, whose gradients would be waited for."
    if run.compiled:
        return "The script uses torch.compile, which would compile for this one batch."
    if run.switches is not None and run.switches.anomaly_mode:
        return "Anomaly mode is on, which stops at a NaN that zeros may give."
    return None


def _batch(run: Run) -> str | None:
    """Can the largest batch be made?"""
    if run.shapes is None or not run.shapes.largest:
        return "The model is not called with one tensor alone, so its largest batch cannot be made."
    if run.shapes.dtype not in _DTYPES:
        return f"The model takes {run.shapes.dtype}; zeros are made as float32 or int64."
    if not run.loaders:
        return "The script draws no batches from a DataLoader, so it cannot be told what its model is given."
    calls = model_calls(run)
    if len(calls) > 1:
        return "Models are called in several places, and it cannot be told which of them takes the largest batch."
    if any(site.detail.get("returns") != "Tensor" for site in calls):
        return "The model returns something else than one tensor, so there is nothing to go backward from."
    return None

"""Autocast to a half precision: switched in the process and written in the source from one description."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hotlap.levers.frameworks import in_their_words
from hotlap.levers.lever import Patch
from hotlap.record import CallSite, Run
from hotlap.source import Edit, WrapStatement


def model_calls(run: Run) -> list[CallSite]:
    """Where the script calls its models."""
    return [site for site in run.call_sites if site.calls == "forward" and site.detail.get("parameters")]


@dataclass(frozen=True, slots=True)
class Autocast:
    """Models compute in a half precision, and what they return goes on as float32."""

    lever: str
    dtype: Literal["bfloat16", "float16"]

    def install(self, patch: Patch) -> None:
        """CHILD: outermost calls of modules with parameters, while gradients are on."""
        import torch
        from torch.utils import _pytree

        call, dtype = torch.nn.Module.__call__, getattr(torch, self.dtype)
        inside = [False]

        def widened(value: Any) -> Any:
            return value.float() if isinstance(value, torch.Tensor) and value.is_floating_point() else value

        def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 - it becomes that method
            if inside[0] or torch.compiler.is_compiling() or not torch.is_grad_enabled():
                return call(self, *args, **kwargs)
            parameter = next(self.parameters(), None)
            if parameter is None:
                return call(self, *args, **kwargs)
            inside[0] = True
            try:
                with torch.autocast(parameter.device.type, dtype=dtype):
                    result = call(self, *args, **kwargs)
            finally:
                inside[0] = False
            return widened(result) if isinstance(result, torch.Tensor) else _pytree.tree_map(widened, result)

        patch.set(torch.nn.Module, "__call__", __call__)

    def edits(self, run: Run) -> Sequence[Edit]:
        """The word of the framework that trains; else a `with` around each statement that calls a model, and `.float()`
        behind the call: none where one model returns something else than one tensor."""
        words = in_their_words(run, self.lever)
        if words is not None:
            return words
        sites = model_calls(run)
        if any(site.detail.get("returns") != "Tensor" for site in sites):
            return ()
        device = run.device_type or ("cpu" if run.device == "cpu" else "cuda")
        return tuple(
            WrapStatement(
                site=site,
                header=f'with torch.autocast("{device}", dtype=torch.{self.dtype})',
                suffix=".float()",
                imports="import torch",
            )
            for site in sites
        )

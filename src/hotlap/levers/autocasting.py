"""What the autocast levers share: models that run in a half precision, in the process and in the source."""

from collections.abc import Sequence
from typing import Any, Literal

from hotlap.levers.lever import Patch
from hotlap.record import CallSite, Run
from hotlap.source import Edit, WrapStatement

Half = Literal["bfloat16", "float16"]


def model_calls(run: Run) -> list[CallSite]:
    """Where the script calls its models."""
    return [site for site in run.call_sites if site.calls == "forward" and site.detail.get("parameters")]


def autocast_edits(run: Run, dtype: Half) -> Sequence[Edit]:
    """A `with` around each statement that calls a model, and `.float()` behind the call; none where one model returns
    something else than one tensor."""
    sites = model_calls(run)
    if any(site.detail.get("returns") != "Tensor" for site in sites):
        return ()
    device = run.device_type or ("cpu" if run.device == "cpu" else "cuda")
    return tuple(
        WrapStatement(
            site=site,
            header=f'with torch.autocast("{device}", dtype=torch.{dtype})',
            suffix=".float()",
            imports="import torch",
        )
        for site in sites
    )


def autocast_calls(patch: Patch, dtype: Half) -> None:
    """CHILD: outermost calls of modules with parameters, while gradients are on."""
    import torch

    call = torch.nn.Module.__call__
    inside = [False]
    half = getattr(torch, dtype)

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 - it becomes that method
        if inside[0] or torch.compiler.is_compiling() or not torch.is_grad_enabled():
            return call(self, *args, **kwargs)
        parameter = next(self.parameters(), None)
        if parameter is None:
            return call(self, *args, **kwargs)
        inside[0] = True
        try:
            with torch.autocast(parameter.device.type, dtype=half):
                result = call(self, *args, **kwargs)
        finally:
            inside[0] = False
        return result.float() if isinstance(result, torch.Tensor) and result.is_floating_point() else result

    patch.set(torch.nn.Module, "__call__", __call__)

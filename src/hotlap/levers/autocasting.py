"""What the autocast levers share: where models are called, and how that is written in a half precision."""

from collections.abc import Sequence
from typing import Literal

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

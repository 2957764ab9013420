"""Autocast to bfloat16, as source."""

from collections.abc import Sequence

from hotlap.levers.frameworks import in_their_words
from hotlap.record import CallSite, Run
from hotlap.source import Edit, WrapStatement


def model_calls(run: Run) -> list[CallSite]:
    """Where the script calls its models."""
    return [site for site in run.call_sites if site.calls == "forward" and site.detail.get("parameters")]


def why_not(run: Run) -> str | None:
    """Why the script's models are not put under autocast, whatever the device."""
    if run.autocast:
        return "The script runs under autocast already."
    if any(dtype != "float32" for o in run.optimizers for dtype in o.dtypes):
        return "The parameters are not all float32."
    return None if model_calls(run) else "No call of a model in the script's own source was seen."


def autocast_edits(run: Run, lever: str) -> Sequence[Edit]:
    """Models compute in bfloat16, and what they return goes on as float32.

    The word of the framework that trains; else a `with` around each statement that calls a model, and `.float()` behind
    the call: none where one model returns something else than one tensor.
    """
    words = in_their_words(run, lever)
    if words is not None:
        return words
    sites = model_calls(run)
    if any(site.detail.get("returns") != "Tensor" for site in sites):
        return ()
    device = run.device_type or ("cpu" if run.device == "cpu" else "cuda")
    return tuple(
        WrapStatement(
            site=site,
            header=f'with torch.autocast("{device}", dtype=torch.bfloat16)',
            suffix=".float()",
            imports="import torch",
        )
        for site in sites
    )

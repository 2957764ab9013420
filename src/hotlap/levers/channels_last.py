"""channels-last: images and filters of convolutions are stored with the channels innermost."""

from collections.abc import Sequence

from hotlap.levers.lever import PASSES, Lever, Numerics
from hotlap.levers.models import NO_CONVOLUTION, NO_NAME, forward_sites, named_models
from hotlap.record import Machine, Run
from hotlap.source import Edit, InsertBefore


class ChannelsLast(Lever):
    """Stores the model's four-dimensional parameters as NHWC; convolutions then hand their images on like that.

    What: `model.to(memory_format=torch.channels_last)` before the optimizer is made.
    Why: the kernels of cuDNN's tensor cores, and oneDNN's blocked ones, want the channels of a pixel side by side, and
    otherwise turn each image round before and after (PyTorch's tuning guide; meant to go with autocast).
    When it hurts: grouped and depthwise convolutions in float32 became up to 35 times slower (pytorch/pytorch#34977,
    4 ms to 143 ms; #50036), and on an A100 some gained nothing (NVIDIA/apex#1445). An operator without such a kernel
    turns the image back each time. `view` on what a convolution returns can fail, where `reshape` would not. State that
    an optimizer loads from a checkpoint keeps its old order, which fused kernels do not look at: it is turned too.
    """

    numerics = Numerics.ROUNDING
    shortens = PASSES
    no_line = NO_NAME

    def refuses(self, run: Run, machine: Machine) -> str | None:
        """Convolutions first, then the hazard of groups, then whether it can be written."""
        calls = forward_sites(run)
        if not any(site.detail.get("convolutions") for site in calls):
            return NO_CONVOLUTION
        if any(site.detail.get("channels_last") for site in calls):
            return "The filters of the model are stored with the channels innermost already."
        if any(site.detail.get("grouped") for site in calls) and not run.autocast:
            return "The model has grouped convolutions in float32, which are far slower with the channels innermost."
        return None

    def edits(self, run: Run) -> Sequence[Edit]:
        """A statement in front of each optimizer."""
        return [
            InsertBefore(
                site=model.before,
                code=f"{model.name}.to(memory_format=torch.channels_last)",
                imports="import torch",
            )
            for model in named_models(run)
            if model.forward.detail.get("convolutions")
        ]

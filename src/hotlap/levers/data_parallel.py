"""What the levers of DistributedDataParallel share: whether there is such a model, and where it is called."""

from hotlap.record import CallSite, Phase, Run

WRAPPERS = (
    "torch.nn.parallel.DistributedDataParallel",
    "torch.nn.parallel.distributed.DistributedDataParallel",
)
"""Full names of what wraps a model."""

EXCHANGE = (Phase.BACKWARD, Phase.COMMUNICATION)
"""Backward passes, which send gradients while they go on, and what is waited for behind."""


def why_none(run: Run) -> str | None:
    """Why there is no such model; None where there is one."""
    if run.world_size == 1:
        return "One process trains here."
    return None if forward_sites(run) else "No model was seen that DistributedDataParallel wraps."


def forward_sites(run: Run) -> list[CallSite]:
    """Where such models are called, with what they were wrapped with (`hotlap.probe.facts.wrapped_with`)."""
    return [site for site in run.call_sites if site.calls == "forward" and site.detail.get("data_parallel")]

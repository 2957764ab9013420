"""fused-optimizer: the optimizer updates all parameters in one kernel."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from hotlap.levers.frameworks import in_their_words
from hotlap.levers.lever import Lever, Numerics, Patch, Scope
from hotlap.record import CallSite, Machine, OptimizerFacts, Phase, Run
from hotlap.source import AddArgument, Edit


class FusedOptimizer(Lever):
    """Passes `fused=True` to optimizers that have a fused kernel, unless the script chose for itself.

    What: Adam, AdamW, SGD and Adagrad of torch.optim have a kernel that does the whole update at once.
    Why: the plain form runs some ten small operators per parameter tensor (or per group, with foreach), and on small
    networks their overhead is most of the update.
    When it hurts: parameters that are not non-overlapping and dense in memory (a strided view, an expanded tensor): the
    fused CPU kernel of Adam (seen in torch 2.13) then updates a part of the elements only and says nothing, so the
    lever is refused there. With float16 and a GradScaler it gave a worse loss in the past (pytorch/pytorch#96755), and
    it is not always faster (pytorch/pytorch#88258, #90752): so it is measured and gated like any other.
    """

    scope = Scope.STEP
    numerics = Numerics.ROUNDING
    across_ranks = True
    shortens = (Phase.OPTIMIZER,)
    no_line = "An optimizer is not made in the script's own source: there is no line to change."

    def refuses(self, run: Run, machine: Machine) -> str | None:
        """Present state first, then the hazard of strided parameters."""
        if not run.optimizers:
            return "The script uses no torch optimizer."
        strided = next((o for o in run.optimizers if not o.all_dense), None)
        if strided is not None:
            return (
                f"{strided.name} holds a parameter that is not dense in memory ({strided.not_dense}); "
                "the fused kernel may update only a part of it."
            )
        if not any(_can_be_fused(o) for o in run.optimizers):
            return "Each optimizer is fused already, has no fused kernel, or was told by the script which one to use."
        return None

    def install(self, patch: Patch) -> None:
        """Switches the groups of each optimizer, those made later included."""
        patch.on_optimizer.append(lambda optimizer: _turn_on(optimizer, patch))

    def edits(self, run: Run) -> Sequence[Edit]:
        """`fused=True` at each construction; the name of the fused AdamW where a framework makes it."""
        wanted, sites = {one.id: one.name for one in run.optimizers if _can_be_fused(one)}, _sites(run)
        if wanted.keys() <= {site.detail["optimizer"] for site in sites}:
            return tuple(AddArgument(site=site, keyword="fused", value="True") for site in sites)
        return (in_their_words(run, self.name) or ()) if set(wanted.values()) == {"torch.optim.AdamW"} else ()


def _can_be_fused(optimizer: OptimizerFacts) -> bool:
    return optimizer.has_fused and optimizer.fused is None and optimizer.foreach is None and optimizer.all_dense


def _sites(run: Run) -> Sequence[CallSite]:
    """Where optimizers are made that can be fused. (A function that makes one may not take the argument.)"""
    ids = {optimizer.id for optimizer in run.optimizers if _can_be_fused(optimizer)}
    return [site for site in run.call_sites if site.detail.get("optimizer") in ids and not site.detail.get("through")]


def _turn_on(optimizer: Any, patch: Patch) -> None:
    """CHILD: where the script left the choice to torch."""
    if optimizer.defaults.get("fused", False) is not None:
        return
    for settings in (optimizer.defaults, *optimizer.param_groups):
        if settings.get("fused") is None and settings.get("foreach") is None:
            settings["fused"] = True
            patch.on_undo(partial(settings.__setitem__, "fused", None))
    _place_counters(optimizer, on_device=True)
    patch.on_undo(lambda: _place_counters(optimizer, on_device=False))


def _place_counters(optimizer: Any, *, on_device: bool) -> None:
    """On a GPU the fused kernels keep the step counter beside the parameter, the others on the host."""
    for parameter, state in optimizer.state.items():
        step = state.get("step")
        if hasattr(step, "to") and parameter.device.type != "cpu":
            state["step"] = step.to(parameter.device if on_device else "cpu")

"""native-step: small models and their optimizers run natively on the CPU."""

from collections.abc import Sequence
from typing import Literal, Self

from hotlap.levers.lever import PASSES, Lever, Numerics, Patch, Scope, behind_imports
from hotlap.levers.models import forward_sites
from hotlap.record import Ceiling, Machine, OptimizerFacts, Phase, Run
from hotlap.source import Edit

# As hotlap.small.optimizers knows them; named here because the parent process must not import torch.
OPTIMIZERS = ("SGD", "Adam", "AdamW")

# Beyond this the arithmetic outweighs what a step costs besides: a layer of 2048 x 2048 has 4 million weights.
MAX_ELEMENTS = 8_000_000

# Multiplications (an update counts for ten of each weight) below which torch cannot win: natively they take 30 us.
LEAST_PRODUCTS = 300_000
WORK = 10


class NativeStep(Lever):
    """Puts `hotlap.small.native_steps()` into the script: known models and optimizers run in hotlap's native core.

    What: the forward and backward of a model made of linear layers, activations and sums become one node
    of autograd, the usual loss modules another, and `optimizer.step()` of SGD, Adam and AdamW one call on the
    `.grad` tensors. Other losses, hooks, clipping, accumulation, schedulers and `state_dict` stay torch's; what is not
    known runs as before. Of a model with other layers (convolutions, norms, a dropout) only the optimizer is tried.
    Why: a small network's arithmetic takes a few microseconds, torch's operators around it hundreds.
    When it hurts: where layers are wide and batches large the products are torch's own and the work, and torch updates
    many parameters with several threads, so `native_steps("model")` and `native_steps("optimizer")` are compared as
    well. Dropout, which would draw other numbers, is left to torch.
    """

    parts: Literal["all", "model", "optimizer"] = "all"

    scope = Scope.STEP
    numerics = Numerics.ROUNDING
    function = "native_steps"

    @classmethod
    def candidates(cls, run: Run, machine: Machine) -> Sequence[Self]:
        """All of a step; where torch may do a part of it faster, the other part alone as well."""
        if not _serves_a_model(run):
            return [cls("optimizer")]
        weights = sum(o.num_elements for o in run.optimizers)
        rows = max((n for n in run.num_samples if n), default=1)
        found = [cls()]
        if rows * weights >= LEAST_PRODUCTS:
            found.append(cls("optimizer"))
        if WORK * weights >= LEAST_PRODUCTS:
            found.append(cls("model"))
        return found

    def refuses(self, run: Run, machine: Machine) -> str | None:
        """Where the model runs, then what updates it."""
        if run.device != "cpu":
            return "The model runs on a GPU; the native core works on the CPU."
        if run.compiled or run.autocast:
            return "The script compiles its model, or runs it under autocast, which the native core does not know."
        return _refuses(run.optimizers)

    def saves_at_most_s(self, run: Run, ceilings: Sequence[Ceiling]) -> float:
        """All of these parts."""
        model = sum(run.mean_phase_s(phase) or 0.0 for phase in PASSES)
        optimizer = run.mean_phase_s(Phase.OPTIMIZER) or 0.0
        return {"all": model + optimizer, "model": model, "optimizer": optimizer}[self.parts]

    def install(self, patch: Patch) -> None:
        """From the next call of a model on, optimizers that a scheduler has wrapped included."""
        from hotlap.small.script_steps import known_steps

        steps = known_steps()
        steps.install(patch.set, self.parts)
        if self.parts != "model":
            patch.on_optimizer.append(lambda optimizer: steps.take_over(optimizer, patch.set))
        patch.idle.append(steps._hotlap_idle)

    def edits(self, run: Run) -> Sequence[Edit]:
        """One line behind the imports."""
        parts = "" if self.parts == "all" else f'"{self.parts}"'
        return behind_imports(run, f"native_steps({parts})", imports="from hotlap.small import native_steps")


def _serves_a_model(run: Run) -> bool:
    """One of those that are called may be made of linear layers alone: one that has others is left to torch whole."""
    sites = forward_sites(run)
    return not sites or any(not site.detail.get("beyond_linear") for site in sites)


def _refuses(optimizers: Sequence[OptimizerFacts]) -> str | None:
    """Why none of these can be served."""
    known = [o for o in optimizers if _is_known(o.name) and o.all_dense]
    if not known:
        return "The script has no SGD, Adam or AdamW over dense parameters."
    if all(set(o.dtypes) - {"float32", "float64"} for o in known):
        return "The parameters are neither float32 nor float64."
    if all(o.num_elements > MAX_ELEMENTS for o in known):
        return f"The model has more than {MAX_ELEMENTS // 1_000_000} million parameters; its arithmetic is the work."
    return None


def _is_known(optimizer: str) -> bool:
    return optimizer.startswith("torch.optim.") and optimizer.rpartition(".")[2] in OPTIMIZERS

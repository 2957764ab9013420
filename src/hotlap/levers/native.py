"""Functions of hotlap's that run what torch does slowly on a CPU: each of them is a lever."""

from collections.abc import Sequence
from typing import Literal, Self

from hotlap.levers.lever import PASSES, Lever, Numerics, Patch, Scope, behind_imports
from hotlap.levers.models import forward_sites, takes_second_derivatives
from hotlap.record import Ceiling, Machine, OptimizerFacts, Phase, Run
from hotlap.source import Edit, scripts

# As hotlap.small.optimizers knows them; named here because the parent process must not import torch.
OPTIMIZERS = ("SGD", "Adam", "AdamW")

# Beyond this the arithmetic outweighs what a step costs besides: a layer of 2048 x 2048 has 4 million weights.
MAX_ELEMENTS = 8_000_000

# Multiplications (an update counts for ten of each weight) below which torch cannot win: natively they take 30 us.
LEAST_PRODUCTS = 300_000
WORK = 10

_PACKING = ("torch.nn.utils.rnn.pack_padded_sequence", "torch.nn.utils.rnn.pack_sequence")


class NativeStep(Lever):
    """Puts `hotlap.small.native_steps()` into the script: known models and optimizers run in hotlap's native core.

    What: the forward and backward of a model made of linear layers, activations and sums become one node
    of autograd, the usual loss modules another, and `optimizer.step()` of SGD, Adam and AdamW one call on the
    `.grad` tensors. Other losses, hooks, clipping, accumulation, schedulers and `state_dict` stay torch's; what is not
    known runs as before. Of a model with other layers (convolutions, norms, a dropout) only the optimizer is tried.
    Why: a small network's arithmetic takes a few microseconds, torch's operators around it hundreds.
    When it hurts: where layers are wide and batches large the products are the work, and gain little, so
    `native_steps("model")` and `native_steps("optimizer")` are compared as well. Dropout, which would draw other
    numbers, is left to torch.
    """

    parts: Literal["all", "model", "optimizer"] = "all"

    scope = Scope.STEP
    numerics = Numerics.ROUNDING
    function = "native_steps"

    @classmethod
    def candidates(cls, run: Run, machine: Machine) -> Sequence[Self]:
        """All of a step; where torch may do a part of it faster, the other part alone as well."""
        sites = forward_sites(run)
        if sites and all(site.detail.get("beyond_linear") for site in sites):  # models that are left to torch whole
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


def _refuses(optimizers: Sequence[OptimizerFacts]) -> str | None:
    """Why none of these can be served."""
    of_torch = [o for o in optimizers if o.name.startswith("torch.optim.") and o.name.rpartition(".")[2] in OPTIMIZERS]
    known = [o for o in of_torch if o.all_dense]
    if not known:
        return "The script has no SGD, Adam or AdamW over dense parameters."
    if all(set(o.dtypes) - {"float32", "float64"} for o in known):
        return "The parameters are neither float32 nor float64."
    if all(o.num_elements > MAX_ELEMENTS for o in known):
        return f"The model has more than {MAX_ELEMENTS // 1_000_000} million parameters; its arithmetic is the work."
    return None


class NativeOde(Lever):
    """Puts `hotlap.small.native_odeint()` into the script: `torchdiffeq.odeint` runs in hotlap's native core.

    What: dopri5, tsit5, rk4 and euler with the same steps and the exact gradient of those steps, where the field
    is made of small layers and arithmetic; other solves run in torchdiffeq as before. With it comes what native-step
    does, because the optimizer is most of what is left of the step.
    Why: an adaptive solve is hundreds of tiny operators one after the other, and as many again backward.
    When it hurts: `odeint_adjoint` integrates its gradient with errors of its own, within its tolerance; the exact one
    differs from it by those. With a large field the arithmetic outweighs the overhead, and nothing is gained.
    """

    scope = Scope.STEP
    numerics = Numerics.ROUNDING
    shortens = (*PASSES, Phase.OPTIMIZER, Phase.OTHER)  # solves also call between modules
    function = "native_odeint"
    line = "native_odeint()"
    imports = "from hotlap.small import native_odeint"

    def refuses(self, run: Run, machine: Machine) -> str | None:
        """Whether there is a solve, and where it runs."""
        if run.device != "cpu":
            return "The model runs on a GPU; the native core works on the CPU."
        if "torchdiffeq" not in run.versions:
            return "The script does not import torchdiffeq."
        return None

    def install(self, patch: Patch) -> None:
        """From the next solve on."""
        from hotlap.small.script_solves import known_solves
        from hotlap.small.script_steps import known_steps

        solves, steps = known_solves(), known_steps()
        solves.install()
        patch.on_undo(solves.uninstall)
        steps.install(patch.set)
        patch.on_optimizer.append(lambda optimizer: steps.take_over(optimizer, patch.set))
        patch.idle.append(solves._hotlap_idle)


class PaddedRecurrent(Lever):
    """Puts `hotlap.recurrent.padded_recurrent()` into the script: LSTMs and GRUs compute packed batches padded.

    What: `nn.LSTM` and `nn.GRU` that are given a `PackedSequence` compute the padded batch, with one more input that
    shuts the gates where there is padding. Outputs, last states, last cells and gradients are those of the packed
    batch, in both directions and over several layers; dropout between layers draws the same numbers. Packing and
    unpacking copy once, not once a position.
    Why: on the CPU torch computes a packed batch position by position, with operators of its own for each; a padded
    one goes through oneDNN's LSTM at once (aten/src/ATen/native/RNN.cpp: packed sequences never take that path).
    When it hurts: where lengths differ much, padding is computed like data; beyond three positions for each one of
    data a batch is computed packed as before. oneDNN's LSTM has no second derivative, so a script with `create_graph`
    is left alone. GPUs are left alone: cuDNN knows packed batches.
    """

    scope = Scope.STEP
    numerics = Numerics.ROUNDING
    shortens = PASSES
    no_line = "Nothing in the script's own source packs sequences (pack_padded_sequence)."
    line = "padded_recurrent()"
    imports = "from hotlap.recurrent import padded_recurrent"

    def refuses(self, run: Run, machine: Machine) -> str | None:
        """Does the script pack, for layers that compute on the CPU?"""
        if run.device != "cpu":
            return "The model runs on a GPU, where cuDNN computes packed sequences by itself."
        if run.compiled or run.autocast:
            return "The script compiles its model, or runs it under autocast, where layers are left as they are."
        if takes_second_derivatives(run):
            return "The script takes second derivatives (create_graph), which oneDNN's LSTM does not have."
        if any("jit.script" in script.text for script in scripts(run)):
            return "The script compiles with torch.jit.script, which would read the changed layers."
        return None

    def install(self, patch: Patch) -> None:
        """From the next packed batch on."""
        from hotlap.recurrent import known_layers

        known_layers().install(patch.set)
        patch.idle.append(known_layers().why_idle)

    def edits(self, run: Run) -> Sequence[Edit]:
        """One line behind the imports, where something is packed."""
        packs = any(True for script in scripts(run) for _ in script.calls(*_PACKING))
        return super().edits(run) if packs else ()

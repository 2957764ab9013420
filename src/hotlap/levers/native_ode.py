"""native-ode: torchdiffeq's solves run natively on the CPU."""

from collections.abc import Sequence

from hotlap.levers.lever import PASSES, Lever, Numerics, Patch, Scope, behind_imports
from hotlap.record import Machine, Phase, Run
from hotlap.source import Edit


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

    def edits(self, run: Run) -> Sequence[Edit]:
        """One line behind the imports."""
        return behind_imports(run, "native_odeint()", imports="from hotlap.small import native_odeint")

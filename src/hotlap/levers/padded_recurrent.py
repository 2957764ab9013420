"""padded-recurrent: recurrent layers that are given packed sequences compute them padded on the CPU."""

from collections.abc import Sequence

from hotlap.levers.lever import PASSES, Lever, Numerics, Patch, Scope, behind_imports
from hotlap.levers.models import takes_second_derivatives
from hotlap.record import Machine, Run
from hotlap.source import Edit, scripts

_PACKING = ("torch.nn.utils.rnn.pack_padded_sequence", "torch.nn.utils.rnn.pack_sequence")


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

    def refuses(self, run: Run, machine: Machine) -> str | None:
        """Does the script pack, for layers that compute on the CPU?"""
        if run.device != "cpu":
            return "The model runs on a GPU, where cuDNN computes packed sequences by itself."
        if run.compiled or run.autocast:
            return "The script compiles its model, or runs it under autocast, where layers are left as they are."
        return _cannot_do(run)

    def install(self, patch: Patch) -> None:
        """From the next packed batch on."""
        from hotlap.recurrent import known_layers

        layers = known_layers()
        before = layers.num_padded
        layers.install(patch.set)

        def idle() -> str | None:
            if layers.num_padded > before:
                return None
            return "" if layers.refused is None else f"A recurrent layer computes packed as before: {layers.refused}."

        patch.idle.append(idle)

    def edits(self, run: Run) -> Sequence[Edit]:
        """One line behind the imports, where something is packed."""
        if not any(True for script in scripts(run) for _ in script.calls(*_PACKING)):
            return ()
        return behind_imports(run, "padded_recurrent()", imports="from hotlap.recurrent import padded_recurrent")


def _cannot_do(run: Run) -> str | None:
    """What of the script's the changed layers could not do."""
    if takes_second_derivatives(run):
        return "The script takes second derivatives (create_graph), which oneDNN's LSTM does not have."
    if any("jit.script" in script.text for script in scripts(run)):
        return "The script compiles with torch.jit.script, which would read the changed layers."
    return None

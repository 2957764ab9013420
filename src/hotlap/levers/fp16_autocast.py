"""fp16-autocast: matrix products of the forward and backward pass in float16, with a loss scale."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from hotlap.levers.autocasting import autocast_edits, why_not
from hotlap.levers.cards import has_float16_alone, is_before_ampere
from hotlap.levers.frameworks import in_their_words
from hotlap.levers.lever import PASSES, Lever, Numerics
from hotlap.levers.loss_scaling import already_scales, other_gradients, scaling_edits
from hotlap.record import Machine, Phase, Run
from hotlap.source import Edit, scripts


@final
@dataclass(frozen=True, slots=True)
class Fp16Autocast(Lever):
    """Runs the model under `torch.autocast(dtype=torch.float16)`, and scales its loss with a `GradScaler`.

    What: products in float16; weights, optimizer and loss stay float32. The factor goes in as the gradient of the loss
    and is taken out right behind the backward pass, so that clipping sees the gradients themselves; an update whose
    gradients overflowed is left out.
    Why: tensor cores of Volta and Turing do eight times as many float16 products as float32 ones, and have no bfloat16
    (NVIDIA's guide "Train With Mixed Precision").
    When it hurts: 5 bits of exponent. Without a scale small gradients vanish in silence; with one, values beyond 65,504
    are infinite, updates are left out and the scale may collapse to nothing (pytorch/pytorch#40497, #43556;
    espnet/espnet#3237), so it begins at 1,024, below where an update would be lost, and the gate counts the updates.
    With a fused optimizer losses were worse in the past (pytorch/pytorch#96755): the gate compares the two together.
    The scaler waits for the device once a step. Cards that know bfloat16 need none of this: there `bf16-autocast` is
    tried instead. Refused where gradients are added up over several backward passes, and where the script takes
    gradients by other means, which would be scaled.
    """

    numerics: ClassVar[Numerics] = Numerics.STATISTICAL
    shortens: ClassVar[Sequence[Phase]] = (*PASSES, Phase.SYNC)
    no_line: ClassVar[str] = (
        "The script does not have one backward pass and one update, as statements one behind the other, and one tensor "
        "that its model returns."
    )

    def refuses(self, run: Run, machine: Machine) -> str | None:
        """The card, present state, then what the scale would meet."""
        return _card(run) or why_not(run) or _scales(run) or (None if _words(run) else _source(run))

    def edits(self, run: Run) -> Sequence[Edit]:
        """A `with` around the call of the model, a scaler, and what goes through it; or the word of the framework that
        does all of it."""
        calls = autocast_edits(run, self.name, "float16")
        scaling = () if _words(run) else scaling_edits(run)
        return (*calls, *scaling) if calls and (scaling or _words(run)) else ()


def _words(run: Run) -> bool:
    return bool(in_their_words(run, Fp16Autocast.name))


def _source(run: Run) -> str | None:
    """What the scale would meet in a loop of the script's own."""
    if len(run.optimizers) != 1:
        return f"The script has {len(run.optimizers) or 'no'} torch optimizers; the scale is for one."
    if run.optimizers[0].closure:
        return "The optimizer is given a closure, which a GradScaler cannot serve."
    known = scripts(run)
    line = already_scales(known)
    if line is not None:
        return f"A GradScaler is used in line {line} already."
    line = other_gradients(known)
    if line is not None:
        return f"Line {line} takes gradients of its own, which would be scaled as well."
    return None


def _card(run: Run) -> str | None:
    if run.device in ("cpu", "mps"):
        return "Loss scaling is tried on NVIDIA's GPUs only."
    if has_float16_alone(run.device):
        return None
    if is_before_ampere(run.device):
        return f"This card ({run.device}) has no tensor cores."
    return f"This card ({run.device}) has bfloat16, which needs no loss scale: bf16-autocast is tried instead."


def _scales(run: Run) -> str | None:
    return "The script scales its loss already: some updates were left out." if run.skipped_updates else None

"""sdpa: attention that is written out becomes one fused operator."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from hotlap.levers.attention import unused_weights, written_out
from hotlap.levers.lever import PASSES, Lever, Numerics
from hotlap.record import Machine, Phase, Run
from hotlap.source import AddArgument, Edit, Replace, Script, scripts

_IMPORTS = "from torch.nn import functional as F"


@final
@dataclass(frozen=True, slots=True)
class Sdpa(Lever):
    """Calls `scaled_dot_product_attention` where a script writes `softmax(q @ k^T * scale + mask) @ v`.

    What: the statements from the product of queries and keys to the one with the values become one call, with the
    script's own scale, mask and dropout; and `nn.MultiheadAttention` whose weights are thrown away is called with
    `need_weights=False`, which lets it do the same.
    Why: the fused kernels never write the weights, a matrix of length times length for each head, to memory: several
    times faster, and memory that grows with the length, not with its square (Dao et al., FlashAttention; torch's
    documentation of scaled_dot_product_attention).
    When it hurts: with dropout the fused kernels draw other random numbers, which the gate, that holds this lever to
    rounding, refuses where it shows. A query whose keys are all masked by a large negative number gets the average of
    the values that the script had, and zeros here. The fused kernels have no second derivative, so a script with
    `create_graph` is left alone. Whatever is written in another way, or whose weights are used elsewhere, stays.
    """

    numerics: ClassVar[Numerics] = Numerics.ROUNDING
    shortens: ClassVar[Sequence[Phase]] = PASSES
    no_line: ClassVar[str] = (
        "No attention is written out in the script's own source: a softmax of a product, multiplied with a third "
        "tensor, whose weights nothing else reads."
    )

    def refuses(self, run: Run, machine: Machine) -> str | None:
        """Does the script do without second derivatives?"""
        if any("create_graph" in script.text for script in scripts(run)):
            return "The script takes second derivatives (create_graph), which the fused kernels do not have."
        return None

    def edits(self, run: Run) -> Sequence[Edit]:
        """At each place, where it can be seen that it is one."""
        return tuple(edit for script in scripts(run) for edit in _edits(script))


def _edits(script: Script) -> Iterator[Edit]:
    for attention in written_out(script):
        site = script.site(attention.statements[0], attention.statements[-1], calls="attention")
        yield Replace(site=site, code=attention.code, imports=_IMPORTS)
    for call in unused_weights(script):
        site = script.site(call, calls="torch.nn.MultiheadAttention")
        yield AddArgument(site=site, keyword="need_weights", value="False")

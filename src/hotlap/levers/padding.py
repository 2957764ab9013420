"""Where a script pads sequences to the longest of a batch, and whether it tells the padding from data."""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hotlap.source import Script

PAD_SEQUENCE = "torch.nn.utils.rnn.pad_sequence"
_PACKING = ("torch.nn.utils.rnn.pack_padded_sequence", "torch.nn.utils.rnn.pack_sequence")
_PARAMETERS = ("sequences", "batch_first", "padding_value", "padding_side")

_LOSSES = frozenset(
    f"torch.nn.{name}"
    for name in ("CrossEntropyLoss", "NLLLoss", "functional.cross_entropy", "functional.nll_loss")
)  # fmt: skip
_NORMALISATIONS = frozenset(
    f"torch.nn.{name}"
    for name in ("BatchNorm1d", "BatchNorm2d", "SyncBatchNorm", "InstanceNorm1d", "InstanceNorm2d", "GroupNorm")
) | {"torch.nn.functional.batch_norm", "torch.nn.functional.instance_norm", "torch.nn.functional.group_norm"}

# What brings the positions of a batch, padding included, into one row for the loss.
_FLATTENING = frozenset({"view", "reshape", "flatten", "transpose", "permute", "contiguous", "mT"})

# Names that people give to what says where the padding is.
_TELLS = re.compile(r"mask|ignore_index|lengths$|lens$", re.IGNORECASE)


@dataclass(frozen=True, slots=True, eq=False)
class PaddedCall:
    """`pad_sequence(lines, batch_first=True)`, which pads on the right."""

    call: ast.Call
    dim: int
    """The dimension of its result that is padded."""
    value: str
    """What it is padded with: "0", "PAD"."""


def padded_calls(script: Script) -> Iterator[PaddedCall]:
    """Those of which all is known; calls that are put into buckets already are left out."""
    for call in script.calls(PAD_SEQUENCE):
        outer = next(script.around(call), None)
        done = isinstance(outer, ast.Call) and script.full_name(outer.func) == "hotlap.data.bucketed"
        given = _arguments(call)
        if given is None or done:
            continue
        first, side, value = (given.get(name) for name in ("batch_first", "padding_side", "padding_value"))
        if not _is_constant(first, bool) or not _is_right(side) or not (value is None or _is_plain(value)):
            continue
        dim = 1 if isinstance(first, ast.Constant) and first.value else 0
        yield PaddedCall(call, dim, "0" if value is None else script.code(value))


def is_told_apart(scripts: Sequence[Script]) -> bool:
    """Something in the source has the name of a mask, of lengths, or of an index that a loss ignores."""
    return any(_TELLS.search(name) for script in scripts for node in ast.walk(script.tree) for name in _names(node))


def loss_over_padding(scripts: Sequence[Script]) -> int | None:
    """The line of a loss over all positions that ignores none of them; None where there is none."""
    for script in scripts:
        kept = {name for loss in script.calls(*_LOSSES) if not _ignores(loss) for name in _kept_as(script, loss)}
        for call in script.all_calls():
            of_ours = ast.unparse(call.func) in kept or (
                (script.full_name(call.func) or "") in _LOSSES and not _ignores(call)
            )
            if of_ours and any(_flattens(value) for value in _values(call)):
                return call.lineno
    return None


def packing(scripts: Sequence[Script]) -> int | None:
    """The line where padded sequences are packed; None where there is none."""
    return next((call.lineno for script in scripts for call in script.calls(*_PACKING)), None)


def normalisation(scripts: Sequence[Script]) -> int | None:
    """The line of a layer whose statistics are taken over positions as well; None where there is none."""
    return next((call.lineno for script in scripts for call in script.calls(*_NORMALISATIONS)), None)


def _arguments(call: ast.Call) -> dict[str, ast.expr] | None:
    """Parameter -> value; None where a star hides them."""
    if any(isinstance(arg, ast.Starred) for arg in call.args) or any(word.arg is None for word in call.keywords):
        return None
    named = {word.arg: word.value for word in call.keywords if word.arg is not None}
    return dict(zip(_PARAMETERS, call.args, strict=False)) | named


def _is_constant(value: ast.expr | None, kind: type) -> bool:
    return value is None or (isinstance(value, ast.Constant) and isinstance(value.value, kind))


def _is_right(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and value.value == "right")


def _is_plain(value: ast.expr) -> bool:
    """Can be read twice: a number, a name, attributes of one."""
    inner = value.operand if isinstance(value, ast.UnaryOp) else value
    while isinstance(inner, ast.Attribute):
        inner = inner.value
    return isinstance(inner, ast.Constant | ast.Name)


def _names(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
            yield name
        case ast.keyword(arg=str(name)):
            yield name


def _ignores(loss: ast.Call) -> bool:
    return any(word.arg in ("ignore_index", None) for word in loss.keywords)


def _kept_as(script: Script, loss: ast.Call) -> Iterator[str]:
    """`criterion = nn.CrossEntropyLoss()` -> "criterion"."""
    outer = next(script.around(loss), None)
    if isinstance(outer, ast.Assign):
        yield from (ast.unparse(target) for target in outer.targets)


def _values(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(word.value for word in call.keywords)]


def _flattens(value: ast.expr) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr in _FLATTENING for node in ast.walk(value))

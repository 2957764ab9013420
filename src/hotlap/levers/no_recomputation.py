"""no-recomputation: activations are kept for the backward pass, not computed a second time."""

import ast
from collections.abc import Iterator, Sequence

from hotlap.levers.lever import Lever, Numerics
from hotlap.record import Ceiling, Machine, Phase, Run
from hotlap.source import AddArgument, Edit, Replace, Script, argument, scripts
from hotlap.units import size

_CHECKPOINT = ("torch.utils.checkpoint.checkpoint",)
_SEQUENTIAL = ("torch.utils.checkpoint.checkpoint_sequential",)
# Arguments of `checkpoint` itself; all others are the function's.
_OWN = frozenset({"use_reentrant", "preserve_rng_state", "determinism_check", "debug", "context_fn", "early_stop"})
# Hugging Face's models and `TrainingArguments`, timm's models, Lightning's plug-ins.
_METHODS = {
    "gradient_checkpointing_enable": "gradient_checkpointing_disable()",
    "set_grad_checkpointing": "set_grad_checkpointing(False)",
}
_KEYWORDS = ("gradient_checkpointing", "activation_checkpointing")
# What may stand in front of an opening parenthesis as it is.
_CALLABLE = (ast.Name, ast.Attribute, ast.Subscript, ast.Call)


class NoRecomputation(Lever):
    """Turns activation checkpointing off, where memory is left: `checkpoint(block, x)` becomes `block(x)`.

    What: calls of `torch.utils.checkpoint`, `gradient_checkpointing_enable()` of Hugging Face's models,
    `set_grad_checkpointing()` of timm's, and the arguments `gradient_checkpointing=True` and
    `activation_checkpointing=True`, as far as the script writes them.
    Why: the backward pass of a checkpointed part first computes its forward pass again, up to a quarter of a step, to
    save memory (PyTorch's documentation of `torch.utils.checkpoint`). Where that memory is there, nothing is gained by
    it.
    When it hurts: activations of the whole model lie in memory at once. A larger batch, a longer sequence or another
    card may then no longer fit: such a trial ends with an error, which is told, and on a CPU the lever is refused where
    a training takes more than half of the memory that there is.
    """

    numerics = Numerics.EXACT
    across_ranks = True
    no_line = "No call in the script's own source turns activation checkpointing on."

    def refuses(self, run: Run, machine: Machine) -> str | None:
        """Is anything computed again, is there memory for what would be kept, and does the script write it?"""
        seen = run.operators
        if seen is not None and seen.recomputed_s == 0.0:
            return "The backward pass computes nothing of the forward pass again."
        taken = run.world_size * (run.rss_peak_bytes or 0)
        if run.device == "cpu" and taken > machine.available_bytes:
            return f"The training takes {size(taken)}, and {size(machine.available_bytes)} of memory are left."
        return None

    def saves_at_most_s(self, run: Run, ceilings: Sequence[Ceiling]) -> float:
        """What was seen, under a profiler; and on a device the time that the host launches it in."""
        seen = None if run.operators is None else run.operators.recomputed_s
        if seen is None:
            return run.mean_phase_s(Phase.BACKWARD) or 0.0
        return seen + (0.0 if run.device == "cpu" else run.mean_phase_s(Phase.FORWARD) or 0.0)

    def edits(self, run: Run) -> Sequence[Edit]:
        """Each call on its own."""
        return tuple(edit for script in scripts(run) for edit in _edits(script))


def _edits(script: Script) -> Iterator[Edit]:
    replaced: set[ast.AST] = set()
    for call in script.all_calls:
        code = _plain(script, call) or _turned_off(script, call)
        if not replaced.isdisjoint(script.around(call)):
            continue
        if code is not None:
            replaced.add(call)
            yield Replace(site=script.site(call, calls="checkpoint"), code=code)
        elif (segments := _segments(script, call)) is not None:
            # With one: the last one keeps its activations.
            yield Replace(site=script.site(segments, calls="checkpoint"), code="1")
    for call in script.all_calls:
        for word in call.keywords:
            if word.arg in _KEYWORDS and isinstance(word.value, ast.Constant) and word.value.value is True:
                yield AddArgument(site=script.site(call, calls="checkpoint"), keyword=word.arg, value="False")


def _plain(script: Script, call: ast.Call) -> str | None:
    """`checkpoint(f, x, use_reentrant=False, mask=m)` -> `f(x, mask=m)`."""
    if script.full_name(call.func) not in _CHECKPOINT or not _is_spelt_out(call) or not call.args:
        return None
    function, *given = call.args
    head = script.code(function)
    arguments = [script.code(one) for one in given]
    arguments += [f"{word.arg}={script.code(word.value)}" for word in call.keywords if word.arg not in _OWN]
    return f"{head if isinstance(function, _CALLABLE) else f'({head})'}({', '.join(arguments)})"


def _segments(script: Script, call: ast.Call) -> ast.expr | None:
    """`4` of `checkpoint_sequential(blocks, 4, x)`."""
    sequential = script.full_name(call.func) in _SEQUENTIAL and _is_spelt_out(call)
    return argument(call, 1, "segments") if sequential else None


def _turned_off(script: Script, call: ast.Call) -> str | None:
    """`model.gradient_checkpointing_enable()` -> `model.gradient_checkpointing_disable()`."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in _METHODS:
        return None
    if any(isinstance(one, ast.Constant) and one.value is False for one in call.args):
        return None
    return f"{script.code(call.func.value)}.{_METHODS[call.func.attr]}"


def _is_spelt_out(call: ast.Call) -> bool:
    """Nothing of it is `*args` or `**kwargs` where that might hold an argument of `checkpoint` itself."""
    return not isinstance(next(iter(call.args), None), ast.Starred) and all(word.arg for word in call.keywords)

"""Which gradients a script wants: those that it reads itself, and those of its optimizers' parameters."""

import ast
from collections.abc import Iterator, Sequence

from hotlap.source.script import Script

# Functions that read gradients without changing them, or gather them for something that does.
_READERS = ("get_total_norm", "GradScaler", "DistributedDataParallel", "fully_shard")

# What waits for gradients on their way, or keeps those of tensors that are no parameters.
_HOOKS = ("register_hook", "register_full_backward_hook", "register_post_accumulate_grad_hook", "retain_grad")


def reads_gradients(script: Script) -> Iterator[str]:
    """Each reason as a sentence with its line; none where nothing in the script reads gradients."""
    for node in ast.walk(script.tree):
        if isinstance(node, ast.Attribute) and node.attr == "grad":
            if (script.full_name(node) or "").partition(".")[0] != "torch":
                yield f"The script touches gradients itself (`.grad` in line {node.lineno})."
        elif isinstance(node, ast.Attribute | ast.Name):
            name = node.attr if isinstance(node, ast.Attribute) else node.id
            if name in _READERS:
                yield f"Gradients are read by {name}, in line {node.lineno}."
            elif name in _HOOKS:
                yield f"The script waits for gradients on their way ({name} in line {node.lineno})."


def takes_inputs(backward: ast.Call) -> bool:
    """`loss.backward()`, or one that says `retain_graph` alone: it can be given `inputs` as well."""
    return not backward.args and all(word.arg == "retain_graph" for word in backward.keywords)


def parameters_of(names: Sequence[str]) -> str:
    """The parameters of some optimizers, as an expression."""
    groups = f"for group in {names[0]}.param_groups"
    if len(names) > 1:
        groups = f"for optimizer in ({', '.join(names)}) for group in optimizer.param_groups"
    return f'[p {groups} for p in group["params"] if p.requires_grad]'

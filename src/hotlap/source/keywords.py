"""What a call is given by name: written out in it, or in a literal mapping behind `**`, which stays as it is."""

import ast


def written(call: ast.Call, keyword: str) -> ast.expr | None:
    """What is written out in a call by this name."""
    return next((word.value for word in call.keywords if word.arg == keyword), None)


def argument(call: ast.Call, position: int, keyword: str) -> ast.expr | None:
    """What a call is given at this place, or by this name; None where neither is written out in it."""
    first = call.args[: position + 1]
    if any(isinstance(arg, ast.Starred) for arg in first):
        return None
    return first[position] if len(first) > position else written(call, keyword)


def why_unseen(call: ast.Call, *names: str) -> str | None:
    """Why one of these keywords may be in a `**` argument of a call, as a clause; None where none can be."""
    open_ = [name for name in names if written(call, name) is None]
    keys = [key for word in call.keywords if word.arg is None for key in _keys(word.value)]
    if open_ and None in keys:
        return f"{open_[0]} may be in a ** argument of the call; write it out"
    hidden = next((name for name in open_ if name in keys), None)
    return None if hidden is None else f"{hidden} is in a ** argument of the call; write it out"


def _keys(mapping: ast.expr) -> list[object]:
    """What a mapping holds that is written out there; None stands for what cannot be seen."""
    keys = mapping.keys if isinstance(mapping, ast.Dict) else [None]
    return [key.value if isinstance(key, ast.Constant) else None for key in keys]

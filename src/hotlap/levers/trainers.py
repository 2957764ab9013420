"""Where the script makes Hugging Face's Trainers, and which model it gives them."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from hotlap.source import Script

_THEIRS = re.compile(r"transformers\.(\w+\.)*\w*Trainer")

Classes = dict[str, ast.ClassDef]
"""The user's own classes of Trainers, by name: they are followed by their names through all files."""


@dataclass(frozen=True, slots=True)
class MadeTrainer:
    """A call that makes a Trainer."""

    script: Script
    call: ast.Call
    model: ast.expr | None
    """What it is given as its model; None where it makes one itself, or it cannot be told."""
    model_init: bool
    """It makes one itself."""


def made_trainers(known: list[Script]) -> Iterator[MadeTrainer]:
    """All in these files."""
    classes = own_classes(known)
    for script in known:
        for call in script.all_calls():
            if _is_trainer(script, call.func, classes):
                yield MadeTrainer(
                    script=script,
                    call=call,
                    model=_model(call, classes),
                    model_init=any(keyword.arg == "model_init" for keyword in call.keywords),
                )


def own_classes(known: list[Script]) -> Classes:
    """The classes in these files that derive from a Trainer."""
    classes = [(script, node) for script in known for node in ast.walk(script.tree) if isinstance(node, ast.ClassDef)]
    found: Classes = {}
    while True:  # what one derives from may be found after it
        more = {c.name: c for script, c in classes if any(_is_trainer(script, base, found) for base in c.bases)}
        if more.keys() <= found.keys():
            return found
        found |= more


def _is_trainer(script: Script, function: ast.expr, classes: Classes) -> bool:
    return _last_name(function) in classes or _THEIRS.fullmatch(script.full_name(function) or "") is not None


def _model(call: ast.Call, classes: Classes) -> ast.expr | None:
    for keyword in call.keywords:
        if keyword.arg == "model":
            return keyword.value
    # A class of the user's with its own arguments may take something else first.
    own = [part for c in classes.values() for part in c.body] if _last_name(call.func) in classes else []
    if any(isinstance(part, ast.FunctionDef) and part.name == "__init__" for part in own):
        return None
    return next((value for value in call.args[:1] if not isinstance(value, ast.Starred)), None)


def _last_name(function: ast.expr) -> str:
    """`theirs.Trainer` -> "Trainer"."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""

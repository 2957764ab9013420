"""Hooks of every step without Python frames of their own: where the native part is there, and nothing compiled yet."""

import importlib
import os
from collections.abc import Callable
from functools import cache
from typing import Any

from hotlap.levers import Patch
from hotlap.probe import unseen


@cache
def native() -> Any:
    """The extension that makes them; None without one, or with HOTLAP_NATIVE=off."""
    if os.environ.get("HOTLAP_NATIVE") == "off":
        return None
    try:
        return importlib.import_module("hotlap.probe._hooks")
    except ImportError:
        return None


def put(patch: Patch, owner: Any, name: str, hook: Callable[..., Any], before: Callable[[Any], Any]) -> None:
    """`owner.name = hook`, and for as long as nothing is compiled a native one in front of it.

    Dynamo traces through a hook in Python, and could only give up at one that is not.

    Args:
        before: makes the native hook, which hands to `hook` what it does not do itself; it is given the extension.
    """
    made = native()
    if made is None:
        patch.set(owner, name, hook)
        return
    quick = before(made)
    patch.set(owner, name, quick)

    def give_way() -> None:
        if vars(owner).get(name) is quick:
            patch.set(owner, name, hook)

    unseen.when_compiled(give_way)

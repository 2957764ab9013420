"""The garbage collector rests while thousands of small objects are made at once."""

import gc
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def collector_rests(function: Callable[P, R]) -> Callable[P, R]:
    """No collection within the function: it would look through all that the script holds, for a tenth of a second and
    more, and find nothing. Afterwards the collector is as it was before."""

    @wraps(function)
    def resting(*args: P.args, **kwargs: P.kwargs) -> R:
        collects = gc.isenabled()
        gc.disable()
        try:
            return function(*args, **kwargs)
        finally:
            if collects:
                gc.enable()

    return resting

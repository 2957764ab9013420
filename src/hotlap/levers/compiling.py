"""CHILD: what comes of models that are compiled."""

import inspect
import sys
from collections.abc import Mapping, Sequence
from typing import Any

# Steps without a new graph after which nothing more is expected.
_SETTLED_STEPS = 30

# A graph for each of two sizes (the last batch of an epoch) in training and in a validation is nothing to speak of.
_MANY_GRAPHS = 4


def has_torch_forward(module: Any) -> bool:
    """What it does when called is written in torch itself: nn.Sequential, nn.Linear."""
    # As it stands in the class: TorchScript's modules have something there that cannot be read.
    forward = inspect.getattr_static(type(module), "forward", None)
    return str(getattr(forward, "__module__", "")).startswith("torch.nn.modules.")


class Compilation:
    """CHILD: what torch.compile makes of the script's models; asked once a step until it has settled."""

    def __init__(self) -> None:
        self._asked = 0
        self._graphs = 0
        self._last = 0
        """Asked when the newest graph was there for the first time."""

    def settled(self) -> bool:
        """No new graph in a while."""
        self._asked += 1
        if _counted("stats").get("unique_graphs", 0) != self._graphs:
            self._graphs, self._last = _counted("stats")["unique_graphs"], self._asked
        return self._asked - self._last >= _SETTLED_STEPS

    def why_idle(self) -> str | None:
        """Nothing was compiled, and what Dynamo says of it."""
        if _counted("stats").get("unique_graphs"):
            return None
        reasons = _counted("unimplemented") or _counted("graph_break")
        return f"no model was compiled, first because: {_first(reasons)}" if reasons else "no model was compiled"

    def notes(self) -> Sequence[str]:
        """A model in pieces, or compiled again and again, gains less than it could."""
        breaks, graphs = _counted("graph_break"), _counted("stats").get("unique_graphs", 0)
        found = []
        if breaks:
            found.append(f"The model leaves the compiled code at {len(breaks)} places, first because: {_first(breaks)}")
        if graphs > _MANY_GRAPHS * (len(breaks) + 1):
            found.append(f"{graphs} graphs were compiled; sizes or settings that change have it done again.")
        return [f"torch.compile: {note}" for note in found]


def _first(reasons: Mapping[str, int]) -> str:
    return next(iter(reasons)).strip().splitlines()[0][:200]


def _counted(what: str) -> Mapping[str, int]:
    """Dynamo's counters; empty where it was not even imported."""
    utils = sys.modules.get("torch._dynamo.utils")
    return utils.counters[what] if utils is not None else {}

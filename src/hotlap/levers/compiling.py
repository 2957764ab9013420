"""How it is written that models are compiled, and what comes of it in the process."""

import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hotlap.levers.models import forward_sites, named_models
from hotlap.record import Run
from hotlap.source import Edit, InsertBefore

# Steps without a new graph after which nothing more is expected.
_SETTLED_STEPS = 30

# A graph for each of two sizes (the last batch of an epoch) in training and in a validation is nothing to speak of.
_MANY_GRAPHS = 4

# TorchInductor has a backend for these (torch/_inductor/codegen).
_COMPILED_FOR = ("cpu", "cuda", "xpu", "mps")

# `compile()` of a module whose forward is torch's own (nn.Sequential) does nothing without it: Dynamo leaves frames of
# torch's out, and sees no other (pytorch/pytorch#150915). It does so since 2.8 (#150209); under the public name,
# torch.compiler.config, only since 2.10 (read in both releases).
_WRAP = "torch._dynamo.config.wrap_top_frame = True"
_WRAPS_SINCE = (2, 8)


def compile_edits(run: Run, arguments: str) -> Iterator[Edit]:
    """`model.compile(arguments)` in front of what makes each optimizer."""
    for model in named_models(run):
        if model.forward.detail.get("torch_forward"):
            yield InsertBefore(site=model.before, code=_WRAP, imports="import torch")
        yield InsertBefore(site=model.before, code=f"{model.name}.compile({arguments})")


def cannot_compile(run: Run) -> str | None:
    """Why no model of the script's can be compiled by its name; None where it is worth trying."""
    from hotlap.machine.cuda import version

    if run.device_type not in (None, *_COMPILED_FOR):
        return f"torch.compile writes no kernels for {run.device_type}."
    torch = version(run.versions.get("torch")) or _WRAPS_SINCE
    if torch < _WRAPS_SINCE and any(site.detail.get("torch_forward") for site in forward_sites(run)):
        return "The model is one of torch's own modules, whose compile() does nothing before torch 2.8."
    return None


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

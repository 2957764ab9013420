"""What a training could save, found alive in the process: modules, optimizers, schedulers, scalers, averaging helpers.

A broken average of the weights, or a schedule that stands still, shows in no loss of the steps that are compared.
"""

import gc
import sys
import weakref
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, groupby, islice
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import torch
import xxhash
from torch import nn

from hotlap.levers.lever import Patch
from hotlap.probe.digests import bytes_of, is_plain, leaves, paths, storages, tensors
from hotlap.probe.guard import Guard, call_before
from hotlap.probe.sampling import projections, sampled
from hotlap.record import COPY, FILE, StateDigest

# Integers up to this size count something; a larger tensor of them holds data.
_MAX_COUNTERS = 16

# Numbers by which a part of torch's is switched off, or works otherwise in training.
_SWITCHED = {"p", "momentum", "dropout"}

# Of a ReduceLROnPlateau; it is known by what it was given (`Run.printed`).
_FROM_LOSSES = {"best", "num_bad_epochs", "cooldown_counter"}

# A saved mapping of more entries holds items, not parts of a training.
_MAX_ENTRIES = 32

# A helper that holds more tensors than the largest models have parameters holds data.
_MAX_LEAVES = 10_000


class Place(NamedTuple):
    """Where a tensor is found: another one may be put there in each step."""

    owner: Callable[[], Any]
    """Gives the mapping or sequence in which the keys begin; None where it is gone."""
    keys: tuple[Any, ...]
    label: str
    """For people: "Net.bn1.running_mean"."""

    def tensor(self) -> torch.Tensor | None:
        """What is there now; None where it is gone."""
        found = self.owner()
        try:
            for key in self.keys:
                found = found[key]
        except (LookupError, TypeError):
            return None
        return found if isinstance(found, torch.Tensor) else None


def held(trained: Iterable[torch.Tensor]) -> tuple[dict[int, str], list[Place]]:
    """(address -> label of what is trained, the other floating tensors of modules and helpers), both in the order in
    which models hold them: it is the same in each run, however an optimizer groups its parameters.

    `trained`: the parameters of all optimizers. What no model holds comes last.
    """
    trained = list(trained)
    given = {id(p): k for k, p in enumerate(trained)}
    labels: dict[int, str] = {}
    others: dict[int, Place] = {}
    for place, leaf in chain(_held(given), _held_in_copies(trained)):
        if id(leaf) in given:
            labels.setdefault(id(leaf), place.label)
        elif _is_comparable(leaf):
            others.setdefault(id(leaf), place)
    for address, k in given.items():
        labels.setdefault(address, f"parameter {k}")
    return labels, list(others.values())


def _held(trained: Mapping[int, int]) -> Iterator[tuple[Place, Any]]:
    """Attributes that may hold tensors, and what is there. `trained`: address -> position in the optimizers."""
    modules, others = _alive()
    for title, root in _titled(modules, trained):
        for name, part in root.named_modules():
            for keys, leaf in paths({key: getattr(part, key) for key in ("_parameters", "_buffers")}):
                label = ".".join(filter(None, (title, name, keys[-1])))
                yield Place(_attributes(part), keys, label), leaf
    for other in sorted(others, key=lambda other: type(other).__name__):
        if not isinstance(other, torch.optim.Optimizer) and type(other).__weakrefoffset__:
            for keys, leaf in islice(paths(getattr(other, "__dict__", {})), _MAX_LEAVES):
                yield Place(_attributes(other), keys, ".".join(map(str, (type(other).__name__, *keys)))), leaf


def _titled(modules: Sequence[tuple[nn.Module, nn.Module]], trained: Mapping[int, int]) -> list[tuple[str, nn.Module]]:
    """(its class, module), in an order that is the same in each run. Of several of one class with the variable or the
    attribute that holds it, "MLP (critic)", else with its place, as optimizers hold them, "MLP (2 of 2)"."""
    orders = [(_order(module, trained), module) for module, _ in modules]
    by_class: dict[str, list[nn.Module]] = defaultdict(list)
    for _, module in sorted(orders, key=lambda one: (one[0][0], one[0][3])):
        by_class[type(module).__name__].append(module)
    several = [same for same in by_class.values() if len(same) > 1]
    titles = {id(one): f"({k + 1} of {len(same)})" for same in several for k, one in enumerate(same)}
    outermost = {id(outer): id(module) for module, outer in modules if id(module) in titles}
    held = _attributes_that_are([outer for _, outer in modules if id(outer) in outermost])
    titles |= {outermost[address]: f"({variable})" for address, (_, (variable,)) in held.items()}
    ordered = (module for _, module in sorted(orders, key=lambda one: one[0]))
    return [(f"{type(module).__name__} {titles.get(id(module), '')}".rstrip(), module) for module in ordered]


def _attributes(owner: Any) -> Callable[[], Any]:
    found = weakref.ref(owner)
    return lambda: getattr(found(), "__dict__", None)


def _held_in_copies(trained: Iterable[torch.Tensor]) -> Iterator[tuple[Place, Any]]:
    copies = _copies(trained)
    found = _attributes_that_are(copies)
    for copy in copies:
        owner, first = found.get(id(copy)) or (_while_held(copy), ())
        for keys, leaf in paths(copy):
            yield Place(owner, (*first, *keys), ".".join(map(str, ("copy", *keys)))), leaf


def _attributes_that_are(things: Sequence[Any]) -> dict[int, tuple[Callable[[], Any], tuple[str]]]:
    """Address -> (attributes of an object, class or file, its first key there): another may be put there each step."""
    near = gc.get_referrers(*things) if things else []  # that looks at all there is
    near += gc.get_referrers(*(one for one in near if type(one) is dict))
    near.append(sys.modules.get("__main__"))  # older than what the collector looks at (`gc.freeze`)
    theirs = (one for one in near if not _is_ours(type(one)))
    owners = (one for one in theirs if type(one).__dictoffset__ and type(one).__weakrefoffset__)
    wanted = set(map(id, things))
    named = ((one, key, value) for one in owners for key, value in list(getattr(one, "__dict__", {}).items()))
    found = [(one, key, value) for one, key, value in named if id(value) in wanted]
    return {id(value): (_attributes(one), (key,)) for one, key, value in reversed(found)}


def _while_held(thing: Any) -> Callable[[], Any]:
    """Gives it as long as others hold it (it cannot be referred to weakly), such as a function's variable."""
    held: list[Any] = [thing, []]  # the second is held by nothing else

    def get() -> Any:
        if held and sys.getrefcount(held[0]) == sys.getrefcount(held[1]):
            held.clear()
        return held[0] if held else None

    return get


def _copies(trained: Iterable[torch.Tensor]) -> list[Any]:
    """Dictionaries and lists with a tensor of their own for each parameter that is trained: averages of the weights; or
    dictionaries that hold those of one module of several by their names, as its state does."""
    trained = list(trained)
    shapes = Counter(tuple(p.shape) for p in trained)
    ours = set(map(id, trained))
    named = ({name: p.shape for name, p in root.named_parameters() if id(p) in ours} for root, _ in _alive()[0])
    of_modules = list(filter(None, named))

    def is_copy(thing: Any) -> bool:
        parts = thing if isinstance(thing, list) else thing.values()
        if type(next(iter(parts), None)) is not torch.Tensor:
            return False
        tensors = [part for part in parts if type(part) is torch.Tensor and not part.requires_grad]
        if bool(shapes) and Counter(tuple(tensor.shape) for tensor in tensors) >= shapes:
            return True
        return isinstance(thing, dict) and any(
            all(getattr(thing.get(name), "shape", None) == shape for name, shape in module.items())
            for module in of_modules
        )

    found = [thing for thing in gc.get_objects() if type(thing) in (dict, list, OrderedDict) and is_copy(thing)]
    return sorted(found, key=lambda copy: str(next(iter(copy))) if isinstance(copy, dict) else "")


def states(step: int, trained: Iterable[torch.Tensor] = ()) -> Iterator[StateDigest]:
    """A digest of each, at the end of that step. `trained`: the parameters of all optimizers."""
    modules, others = _alive()
    trained = list(trained)
    for title, module in _titled(modules, {id(p): k for k, p in enumerate(trained)}):
        parameters = _digest(step, title, list(module.parameters()))
        yield replace(parameters, parameters=parameters.digest)
        yield from _settings(step, title, module)
        # One by one: a version that holds one more has the others still.
        for name, buffer in module.named_buffers():
            yield _digest(step, f"{title}.{name}", buffer)
    for other in others:
        yield _digest(step, type(other).__name__, _content(other))
    theirs = set(storages(trained))
    for copy in _copies(trained):
        # In whatever form it holds them, and whether it is none.
        follows = any(ref in theirs for ref in storages(copy))
        yield _digest(step, COPY, [f"{follows}", _in_order(leaves(copy))])


def _settings(step: int, title: str, root: nn.Module) -> Iterator[StateDigest]:
    """Of each part of torch's its numbers, and whether it is in training: few losses show a dropout that is off."""
    for name, part in root.named_modules():
        if type(part).__module__.startswith("torch.nn."):
            numbers = {key: value for key, value in vars(part).items() if isinstance(value, float)}
            if _SWITCHED & numbers.keys():
                numbers["training"] = part.training
            if numbers:
                label = ".".join(filter(None, (title, name)))
                told = ", ".join(f"{key} {value}" for key, value in sorted(numbers.items()))
                yield replace(_digest(step, f"{label} ({type(part).__name__})", told), counts=told)


class States:
    """Collects digests: in the middle and at the end of the planned steps, and where the first epoch is over."""

    def __init__(self, num_steps: int) -> None:
        self.seen: list[StateDigest] = []
        """In order; what the script itself saved among them, as it did."""
        self._wanted = {num_steps // 2, num_steps - 1}
        self._epoch_seen = False

    def install(self, patch: Patch, guard: Guard, steps: Callable[[], int]) -> None:
        """`steps` answers how many were made: of what `torch.save` writes, the tensors are compared."""

        def saved(content: Any, file: Any, *args: Any, **kwargs: Any) -> None:
            path = getattr(file, "name", file)
            name = f"{FILE}{Path(path).name}" if isinstance(path, str | PathLike) else "What is saved in memory"
            self.seen += _of_file(max(0, steps() - 1), name, content)

        call_before(patch, torch, "save", guard(saved, "what the script saves"))

    def step_ended(self, step: int, trained: Iterable[torch.Tensor] = (), *, epoch_started: bool) -> None:
        """`trained`: the parameters of all optimizers. `epoch_started`: an epoch began within the step."""
        epoch_over = epoch_started and step > 0 and not self._epoch_seen
        self._epoch_seen |= epoch_over
        if epoch_over or step in self._wanted:
            self.seen += states(step, trained)


def _alive() -> tuple[list[tuple[nn.Module, nn.Module]], list[Any]]:
    """(outermost modules that hold tensors, each with what wraps it or itself; all else that has a `state_dict`)."""
    gc.collect()  # what is dead is collected at another time in each run
    things = gc.get_objects()
    kinds = {kind for kind in set(map(type, things)) if _has_state(kind)}
    found = [thing for thing in things if type(thing) in kinds]
    modules = [thing for thing in found if issubclass(type(thing), nn.Module)]
    parts = {id(part) for module in modules for part in module._modules.values()}
    roots = {id(root): (root, module) for module in modules if id(module) not in parts for root in [_unwrapped(module)]}
    others = [thing for thing in found if not issubclass(type(thing), nn.Module)]
    return [one for one in roots.values() if any(True for _ in chain(one[0].parameters(), one[0].buffers()))], others


def _has_state(kind: type) -> bool:
    # By the type alone: `isinstance` and `hasattr` of a thing would run code of proxies that load what they stand for.
    return not _is_ours(kind) and any("state_dict" in vars(part) for part in kind.__mro__)


def _is_ours(kind: type) -> bool:
    return str(kind.__module__).partition(".")[0] == "hotlap"


def _unwrapped(module: nn.Module) -> nn.Module:
    """The module within one that adds nothing but a name, as what torch.compile returns."""
    while not module._parameters and not module._buffers and len(module._modules) == 1:
        (inner,) = module._modules.values()
        if inner is None:
            break
        module = inner
    return module


def _order(module: nn.Module, trained: Mapping[int, int]) -> tuple[bool, str, str, int, str]:
    """The same in each run: a copy of a model has its shapes, but is not trained; copies differ in content.

    Buffers have no part in it, for a forward pass may have changed them. Of copies with equal weights, which is made
    first comes first as a rule.
    """
    named = [(name, p) for name, p in module.named_parameters() if not _is_lazy(p)]
    shapes = repr([(name, tuple(p.shape)) for name, p in named])
    first = min((trained[id(p)] for _, p in named if id(p) in trained), default=-1)
    content = _digest(0, "", [p for _, p in named]).digest if first < 0 else ""
    return first < 0, shapes, type(module).__name__, first, content


def _content(thing: Any) -> Any:
    if isinstance(thing, torch.optim.Optimizer):
        # In whatever order it holds its parameters.
        return _in_order(thing.state.values())
    try:
        state = thing.state_dict()
        if not isinstance(thing, torch.optim.lr_scheduler.LRScheduler):
            return state
        return {key: _of_schedule(key, of) for key, of in state.items()}
    except Exception:  # the user's code, which may not be ready to be saved
        return None


def _in_order(parts: Iterable[Any]) -> list[Any]:
    """The same in each run, whatever order they come in. What rounding changes comes last: of parameters that were not
    all updated as often, the numbers of updates stand in one order."""

    def told(part: Any) -> tuple[str, str]:
        found = _digest(0, "", part)
        return found.counts, found.digest

    return sorted(parts, key=told)


def _of_schedule(key: str, value: Any) -> Any:
    """What it goes by is a setting, to six digits, and no rounding changes it; what follows from losses is a number."""
    if isinstance(value, list):
        # One for each group: of equal ones one tells of all.
        return [one for one, _ in groupby(value)]
    if key in _FROM_LOSSES:
        return float(value)
    return f"{value:.6g}" if isinstance(value, float) else value


def _digest(step: int, name: str, content: Any) -> StateDigest:
    whole, counts = xxhash.xxh3_128(), xxhash.xxh3_128()
    sketches = []
    for keys, leaf in paths(content):
        if isinstance(leaf, torch.Tensor):
            if _is_lazy(leaf):
                continue
            leaf = _counted(keys, leaf)  # noqa: PLW2901 - of those
            told = f"{keys}{tuple(leaf.shape)}".encode()
            if leaf.layout == torch.strided and not leaf.is_nested:
                told += bytes(bytes_of(sampled(leaf)))
                sketches += [projections(leaf)] if leaf.is_floating_point() else []
            whole.update(told)
            if not leaf.is_floating_point() and leaf.numel() <= _MAX_COUNTERS:
                counts.update(told)
        elif is_plain(leaf):
            whole.update(f"{keys}{leaf!r}".encode())
            if not isinstance(leaf, float | complex):
                counts.update(f"{keys}{leaf!r}".encode())
    sketch = tuple(map(sum, zip(*filter(None, sketches), strict=True)))
    return StateDigest(step=step, name=name, digest=whole.hexdigest(), counts=counts.hexdigest(), sketch=sketch)


def _counted(keys: tuple[Any, ...], leaf: torch.Tensor) -> torch.Tensor:
    """The number of updates, which optimizers keep as a fraction, as an integer."""
    return leaf.long() if keys[-1:] == ("step",) and leaf.numel() == 1 else leaf


def _of_file(step: int, name: str, content: Any) -> list[StateDigest]:
    """Of the tensors of each entry by itself (a model, its average), and of those of a single model as one."""
    entries = dict(enumerate(content)) if isinstance(content, list | tuple) else content
    found = {key: list(_tensors_in(part)) for key, part in entries.items()} if isinstance(entries, dict) else {}
    told = {f"{name} ({key})": part for key, part in found.items() if part}
    if len(told) > _MAX_ENTRIES or all(isinstance(entries[key], torch.Tensor) for key, part in found.items() if part):
        told = {name: list(_tensors_in(content))}
    return [_digest(step, title, part) for title, part in told.items()]


def _tensors_in(content: Any) -> Iterator[torch.Tensor]:
    for keys, leaf in paths(content):
        if isinstance(leaf, nn.Module):
            yield from tensors(leaf.state_dict())
        elif isinstance(leaf, torch.Tensor):
            yield _counted(keys, leaf)


def _is_comparable(leaf: Any) -> bool:
    known = isinstance(leaf, torch.Tensor) and not _is_lazy(leaf)
    return known and leaf.is_floating_point() and leaf.layout == torch.strided


def _is_lazy(tensor: torch.Tensor) -> bool:
    return tensor.is_meta or nn.parameter.is_lazy(tensor)

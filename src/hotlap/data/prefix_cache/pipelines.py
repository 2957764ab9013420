"""The transforms of a data set, cut in two: what comes before the first random draw, and what follows.

The cut is made where the data set itself calls its transforms: for the time of one item, each pipeline (torchvision's
`Compose`, of either version, or whatever is built like it, and `nn.Sequential`) holds a single step of ours, which runs
the head, keeps what comes out, and hands the data set a mark in place of the result.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, final

import torch
from torch.utils._pytree import tree_map_only
from torch.utils.data import Dataset
from torch.utils.data._utils.collate import collate, default_collate_fn_map

from hotlap.data.checks.random_state import Stream, Streams
from hotlap.data.item.codec import CannotKeep
from hotlap.data.prefix_cache.deferred import LookedUp, batch_of, deferred, in_turn, made, num_deferred

# How deep below the data set pipelines are looked for, and among how many objects.
_MOST_OBJECTS = 64
_MOST_CHILDREN = 32

# One for all, as two data sets may hold the same pipeline, and be read by two threads.
_REPLACING = threading.RLock()


@final
@dataclass(frozen=True, slots=True)
class Placeholder:
    """Stands for the result of a call (for one of several: `part`). Whoever does anything with it is told no."""

    _hotlap_packs: ClassVar[bool] = True

    call: int
    part: int | None = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise CannotKeep("it works on what its transforms return")

    def of(self, results: list[Any]) -> Any:
        """Its own, of those of all calls."""
        return results[self.call] if self.part is None else results[self.call][self.part]


class Call(NamedTuple):
    """One call of a pipeline while an item was made."""

    pipeline: int
    inputs: tuple[Any, ...]
    """What came out of the head."""
    several: bool
    """It was given several inputs, and returns as many."""


@dataclass(slots=True)
class Pipeline:
    """One object with steps that are called one after the other."""

    owner: Any
    attribute: str
    """Where its steps are: `transforms` of a Compose, `_modules` of an `nn.Sequential`."""
    num_head: int = 0
    """Steps that are run when an item is cut: those before the first that draws."""

    def result(self, call: "Call", *, defers: bool = False) -> Any:
        """Of a call, by the steps behind the head as they are now, called as torchvision calls them."""
        steps = _in_order(getattr(self.owner, self.attribute))[self.num_head :]
        if defers and not call.several and (last := num_deferred(steps)):
            return deferred(in_turn(steps[:-last], *call.inputs), steps[-last:])
        outputs = _run(steps, call.inputs)
        return outputs if call.several else outputs[0]

    def watched(self, held: Any, streams: Streams) -> Any:
        """What takes the place of `held` where the cut is looked for: a head ends in front of the first that draws."""
        return _held_as(held, [self._watching(*step, streams) for step in enumerate(_in_order(held))])

    def recorder(self, held: Any, number: int, calls: list[Call]) -> Any:
        """What takes the place of `held` while this thread cuts an item: it runs the head only, and adds what comes out
        to `calls`, as of the pipeline of this number."""
        thread, num_head = threading.get_ident(), self.num_head

        def step(*inputs: Any) -> Any:
            several = len(inputs) > 1
            if threading.get_ident() != thread:  # not the item that is being cut
                outputs = _run(_in_order(held), inputs)
                return outputs if several else outputs[0]
            if any(isinstance(value, Placeholder) for value in inputs):
                raise CannotKeep("it hands the results of one pipeline to another")
            calls.append(Call(number, _run(_in_order(held)[:num_head], inputs), several))
            call = len(calls) - 1
            return tuple(Placeholder(call, part) for part in range(len(inputs))) if several else Placeholder(call)

        return _held_as(held, [step])

    def _watching(self, place: int, step: Callable[..., Any], streams: Streams) -> Callable[..., Any]:
        def run(*inputs: Any) -> Any:
            before = streams.states()
            result = step(*inputs)
            if streams.drawn(before) is not None:
                self.num_head = min(self.num_head, place)
            return result

        return run


class HalfItem(NamedTuple):
    """An item whose tails have not run: how it is built, and what they are given."""

    skeleton: Any
    calls: list[Call]


class FinishedItem(NamedTuple):
    """An item whose tails have run: how it is built, and the results of the calls."""

    skeleton: Any
    results: list[Any]

    def item(self) -> Any:
        """The item itself, its deferred steps done."""
        results = [*map(made, self.results)]
        return tree_map_only(Placeholder, lambda mark: mark.of(results), self.skeleton) if results else self.skeleton


def collated(items: Sequence[FinishedItem], checked: dict[Any, bool]) -> Any:
    """What `default_collate` makes of them; `checked`: see `batch_of`.

    Raises:
        CannotKeep: they are not all built alike.
    """
    num_marks = 0

    def batch(marks: list[Any], **_: Any) -> Any:
        nonlocal num_marks
        num_marks += len(marks)
        return batch_of([mark.of(one.results) for mark, one in zip(marks, items, strict=True)], checked)

    built = collate([one.skeleton for one in items], collate_fn_map={**default_collate_fn_map, Placeholder: batch})
    if num_marks != sum(len(one.results) for one in items):
        raise CannotKeep("its items are built in several ways")
    return built


@final
class Pipelines:
    """All pipelines of a data set."""

    def __init__(self, dataset: Any, found: Iterable[Pipeline] | None = None) -> None:
        """`found`: None: all that it holds."""
        self.dataset = dataset
        self.found = [*(_find(dataset) if found is None else found)]

    @property
    def heads(self) -> tuple[int, ...]:
        """Steps of each head."""
        return tuple(pipeline.num_head for pipeline in self.found)

    @heads.setter
    def heads(self, heads: tuple[int, ...]) -> None:
        for pipeline, num_head in zip(self.found, heads, strict=True):
            pipeline.num_head = num_head

    def find_heads(self, index: Any, own: Sequence[Stream]) -> None:
        """Shorten each head to the steps that draw nothing for this item. Begins with all steps of a new `Pipeline`."""
        streams = Streams(own)
        before = streams.states()
        with self._replaced(lambda number, held: self.found[number].watched(held, streams)):
            self.dataset[index]
        streams.restore(before)

    def half(self, index: Any) -> HalfItem:
        """An item as far as its heads go.

        Raises:
            CannotKeep: it cannot be cut there.
        """
        calls: list[Call] = []
        try:
            with self._replaced(lambda number, held: self.found[number].recorder(held, number, calls)):
                skeleton = self.dataset[index]
        except CannotKeep:
            raise
        except Exception as error:  # the data set's code, which met a mark, or an error of its own that comes again
            raise CannotKeep(f"it works on what its transforms return ({type(error).__name__}: {error})") from error
        if not calls:
            raise CannotKeep("it calls none of its transforms")
        return HalfItem(skeleton, calls)

    def finished(self, half: HalfItem, *, defers: bool = False) -> "FinishedItem":
        """Each call's tail in the order of the calls; `defers`: but for last steps that can be done for a batch."""
        results = [self.found[call.pipeline].result(call, defers=defers) for call in half.calls]
        return FinishedItem(half.skeleton, results)

    @contextmanager
    def _replaced(self, make: Callable[[int, Any], Any]) -> Iterator[None]:
        """Within this, pipelines hold other steps: `make` (number of a pipeline, its steps) in their place."""
        with _REPLACING:
            held = [getattr(pipeline.owner, pipeline.attribute) for pipeline in self.found]
            try:
                for number, pipeline in enumerate(self.found):
                    setattr(pipeline.owner, pipeline.attribute, make(number, held[number]))
                yield
            finally:
                for pipeline, before in zip(self.found, held, strict=True):
                    setattr(pipeline.owner, pipeline.attribute, before)


def _in_order(held: Any) -> list[Callable[..., Any]]:
    """Steps as a pipeline holds them: in a list or a dict."""
    return [*held.values()] if isinstance(held, dict) else [*held]


def _held_as(held: Any, steps: list[Callable[..., Any]]) -> Any:
    """Other steps, as these are held."""
    return dict(enumerate(steps)) if isinstance(held, dict) else steps


def _run(steps: list[Callable[..., Any]], inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    for step in steps:
        result = step(*inputs)
        inputs = result if len(inputs) > 1 else (result,)
    return inputs


def parts_of(dataset: Any) -> Iterator[Any]:
    """A data set and what it holds, as deep as pipelines are looked for; not what those hold."""
    waiting, seen = [dataset], set[int]()
    while waiting and len(seen) < _MOST_OBJECTS:
        value = waiting.pop(0)
        if id(value) in seen:
            continue
        seen.add(id(value))
        yield value
        if isinstance(value, list | tuple):
            waiting += value[:_MOST_CHILDREN]
        elif isinstance(value, dict):
            waiting += [*value.values()][:_MOST_CHILDREN]
        elif _steps_of(value) is None and _is_looked_into(value):
            waiting += vars(value).values()


def look_up_last_steps(dataset: Any) -> None:
    """IN A COPY, for good: last steps that make numbers of a picture's bytes are `LookedUp`."""
    for pipeline in _find(dataset):
        held = getattr(pipeline.owner, pipeline.attribute)
        steps = _in_order(held)
        if last := num_deferred(steps):
            setattr(pipeline.owner, pipeline.attribute, _held_as(held, [*steps[:-last], LookedUp(steps[-last:])]))
    for value in parts_of(dataset):  # a data set's only transform
        own = getattr(value, "__dict__", None)
        if isinstance(own, dict):
            own.update({name: LookedUp([step]) for name, step in own.items() if num_deferred([step])})


def _find(dataset: Any) -> Iterator[Pipeline]:
    """Pipelines that the data set holds, not those inside of another one."""
    for value in parts_of(dataset):
        attribute = _steps_of(value)
        if attribute is not None:
            yield Pipeline(value, attribute, len(getattr(value, attribute)))


def _steps_of(value: Any) -> str | None:
    if type(value) is torch.nn.Sequential:
        return "_modules"
    is_compose = type(value).__name__ == "Compose" and isinstance(getattr(value, "transforms", None), list)
    return "transforms" if is_compose and callable(value) else None


def _is_looked_into(value: Any) -> bool:
    """A data set, or what may stand between one and its transforms (torchvision's `StandardTransform`)."""
    plain = isinstance(value, torch.Tensor | torch.nn.Module | type) or type(value).__module__ == "builtins"
    return isinstance(value, Dataset) or (not plain and hasattr(value, "__dict__"))

"""Items and batches as trees: flatten(tree) -> (leaves, structure), and back."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any

MAPPINGS = (dict, OrderedDict)

Structure = tuple[type, list[Any] | None, list[Any]] | None
"""(type of the container, keys of a mapping, structure of each entry); None for a leaf. Equal ones compare equal."""


def is_named_tuple(value: Any) -> bool:
    """True for an instance of a `namedtuple` class."""
    return isinstance(value, tuple) and hasattr(type(value), "_fields")


def flatten(item: Any) -> tuple[list[Any], Structure]:
    """(leaves, structure) of an item. Containers are tuples, named ones, lists and dicts; exact types only."""
    leaves: list[Any] = []
    return leaves, _flatten(item, leaves, is_batch=False)


def flatten_batch(batch: Any) -> tuple[list[Any], Structure]:
    """As `flatten`, of what `default_collate` returns: the texts of B items are one leaf."""
    leaves: list[Any] = []
    return leaves, _flatten(batch, leaves, is_batch=True)


def unflatten(leaves: Iterable[Any], structure: Structure) -> Any:
    """The item or batch of these leaves."""
    return _unflatten(iter(leaves), structure)


def _flatten(value: Any, leaves: list[Any], *, is_batch: bool) -> Structure:
    kind = type(value)
    if kind is tuple or kind is list or is_named_tuple(value):
        if not (is_batch and value and isinstance(value[0], str | bytes)):
            return kind, None, [_flatten(part, leaves, is_batch=is_batch) for part in value]
    elif kind in MAPPINGS:
        return kind, list(value), [_flatten(part, leaves, is_batch=is_batch) for part in value.values()]
    leaves.append(value)
    return None


def _unflatten(leaves: Iterator[Any], structure: Structure) -> Any:
    if structure is None:
        return next(leaves)
    kind, keys, entries = structure
    make: Any = kind
    parts = [next(leaves) if entry is None else _unflatten(leaves, entry) for entry in entries]
    if keys is not None:
        return make(zip(keys, parts, strict=True))
    return make(*parts) if hasattr(kind, "_fields") else make(parts)

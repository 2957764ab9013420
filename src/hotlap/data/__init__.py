"""Loaders that hand out the same samples sooner. Public; the data levers write exactly these.

`item_cache` (cached), `prefix_cache` (cached_prefix) and `gather` (batched, resident) hold these functions; `loader` is
what a DataLoader does over their data sets, `item` takes items apart and compares them, `checks` finds out whether they
may be kept, `wrapper` stands in a data set's place.

They are imported on first use, so that importing hotlap does not import torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hotlap.data.gather.batched import batched
    from hotlap.data.gather.resident import resident
    from hotlap.data.item_cache.cached import cached
    from hotlap.data.prefix_cache.cached_prefix import cached_prefix

__all__ = ["batched", "cached", "cached_prefix", "resident"]

_HOMES = {
    "batched": "gather.batched",
    "cached": "item_cache.cached",
    "cached_prefix": "prefix_cache.cached_prefix",
    "resident": "gather.resident",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"hotlap.data.{home}"), name)

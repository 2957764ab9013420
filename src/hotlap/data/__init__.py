"""Loaders that hand out the same samples sooner. Public; the data levers write exactly these.

They are imported on first use, so that importing hotlap does not import torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hotlap.data.cache import CachedDataset, cached
    from hotlap.data.gathering import BatchedDataset, batched
    from hotlap.data.lateness import LateDataset, late
    from hotlap.data.prefix import PrefixDataset, cached_prefix
    from hotlap.data.residence import resident

__all__ = [
    "BatchedDataset",
    "CachedDataset",
    "LateDataset",
    "PrefixDataset",
    "batched",
    "cached",
    "cached_prefix",
    "late",
    "resident",
]

_HOMES = {
    "BatchedDataset": "gathering",
    "CachedDataset": "cache",
    "LateDataset": "lateness",
    "PrefixDataset": "prefix",
    "batched": "gathering",
    "cached": "cache",
    "cached_prefix": "prefix",
    "late": "lateness",
    "resident": "residence",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"hotlap.data.{home}"), name)

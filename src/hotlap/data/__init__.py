"""Loaders that hand out the same samples sooner. Public; the data levers install exactly these.

`cached` is imported on first use, so that importing hotlap does not import torch.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hotlap.data.cache import CachedDataset, cached

__all__ = ["CachedDataset", "cached"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from hotlap.data import cache

        return getattr(cache, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

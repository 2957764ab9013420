"""Tests of `hotlap.data.item_cache.cached`."""

"""Tests of `hotlap.data.prefix_cache.cached_prefix`."""

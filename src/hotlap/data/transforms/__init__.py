"""Transforms that are deferred: done for a batch in place of each item."""

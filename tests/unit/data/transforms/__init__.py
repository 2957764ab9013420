"""Tests of `hotlap.data.transforms`."""

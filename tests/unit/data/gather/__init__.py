"""Tests of `hotlap.data.gather`."""

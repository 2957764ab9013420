"""Tests of `hotlap.data.checks`."""

"""Tests of `hotlap.data.loader`."""

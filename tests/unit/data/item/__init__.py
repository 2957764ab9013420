"""Tests of `hotlap.data.item.compare`."""

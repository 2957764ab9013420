"""Tests of `hotlap.data.item.codec`."""

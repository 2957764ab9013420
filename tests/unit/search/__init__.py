"""Tests of hotlap.search."""

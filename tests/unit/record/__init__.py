"""Tests of hotlap.record."""

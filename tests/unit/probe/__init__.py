"""Tests of hotlap.probe."""

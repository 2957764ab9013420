"""Tests of hotlap.machine."""

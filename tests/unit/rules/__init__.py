"""Tests of hotlap.rules."""

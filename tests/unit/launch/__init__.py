"""Tests of hotlap.launch."""

"""Tests of hotlap.tune."""

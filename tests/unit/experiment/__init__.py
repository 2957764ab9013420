"""Tests of hotlap.experiment."""

"""Tests of hotlap.lab."""

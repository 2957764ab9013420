"""Tests of hotlap.predict."""

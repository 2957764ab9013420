"""The tests of hotlap."""

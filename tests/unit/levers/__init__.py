"""Tests of the levers."""

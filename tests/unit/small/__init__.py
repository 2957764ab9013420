"""Tests of small networks and neural ODEs."""

"""Starts a training command under a plan, and brings back what the probe recorded."""

from hotlap.launch.heat import Launcher
from hotlap.launch.input import StandardInput
from hotlap.launch.replayed import ReplayedLauncher

__all__ = ["Launcher", "ReplayedLauncher", "StandardInput"]

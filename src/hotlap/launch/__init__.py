"""Starts a training command under a plan, and brings back what the probe recorded."""

from hotlap.launch.placed import Backend, Order, Placed
from hotlap.launch.ray import Ray
from hotlap.launch.slurm import Slurm
from hotlap.launch.trial_group import Launcher
from hotlap.launch.whole import WholeRun, end_like

__all__ = [
    "Backend",
    "Launcher",
    "Order",
    "Placed",
    "Ray",
    "Slurm",
    "WholeRun",
    "end_like",
]

"""Search: what to try next, on top of what, whether it pays, and whether training is unharmed."""

from hotlap.tune.options import Options
from hotlap.tune.tuner import Tuner

__all__ = ["Options", "Tuner"]

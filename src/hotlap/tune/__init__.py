"""Search: what to try next, on top of what, whether it pays, and whether training is unharmed."""

from hotlap.tune.first_look import Wanted
from hotlap.tune.measuring import FULL, LOOKING, WATCHES, Measurer, Scope
from hotlap.tune.options import Options
from hotlap.tune.tuner import Tuner

__all__ = ["FULL", "LOOKING", "WATCHES", "Measurer", "Options", "Scope", "Tuner", "Wanted"]

"""Studies from their first look to their end: `Tuner` tries levers, `Measurer` only measures."""

from hotlap.search import Options
from hotlap.tune.first_look import Wanted
from hotlap.tune.measuring import FULL, LOOKING, WATCHES, Measurer, Scope
from hotlap.tune.tuner import Tuner

__all__ = ["FULL", "LOOKING", "WATCHES", "Measurer", "Options", "Scope", "Tuner", "Wanted"]

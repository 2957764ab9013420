"""Studies to their end: `tuned` tries levers, `measured` only measures, `Check` judges an edit."""

import sys

from hotlap import Tune
from hotlap.search import Options, StudyLog
from hotlap.tune.checking import Check, Checked
from hotlap.tune.measuring import FULL, PROFILERS, measured
from hotlap.tune.tuner import tuned

__all__ = ["FULL", "PROFILERS", "Check", "Checked", "Options", "StudyLog", "measured", "tuned"]

sys.modules[__name__].__class__ = Tune

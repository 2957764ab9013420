"""Studies to their end: `tuned` tries levers, `measured` only measures, `checked` judges an edit."""

from hotlap.search import Options, StudyLog
from hotlap.tune.checking import checked
from hotlap.tune.measuring import FULL, LOOKING, PROFILERS, measured
from hotlap.tune.tuner import tuned

__all__ = ["FULL", "LOOKING", "PROFILERS", "Options", "StudyLog", "checked", "measured", "tuned"]

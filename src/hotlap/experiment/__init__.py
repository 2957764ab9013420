"""Is B faster than A? Designs of arms that take turns -> heats -> log-ratios -> effects with intervals."""

from hotlap.experiment.design import Arm, Design, Runs, Sizes
from hotlap.experiment.edited import EditedScript, Stack
from hotlap.experiment.effects import Effect, compare
from hotlap.experiment.exclusive import Exclusive
from hotlap.experiment.executor import Executor, Heat, Pace
from hotlap.experiment.statistics import PLANNED, Rule

__all__ = [
    "PLANNED",
    "Arm",
    "Design",
    "EditedScript",
    "Effect",
    "Exclusive",
    "Executor",
    "Heat",
    "Pace",
    "Rule",
    "Runs",
    "Sizes",
    "Stack",
    "compare",
]

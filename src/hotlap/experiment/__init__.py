"""Is B faster than A? Designs of arms that take turns -> trial groups -> log-ratios -> effects with intervals."""

from hotlap.experiment.design import Arm, Design, EditedScript, Sizes, Stack
from hotlap.experiment.effects import Comparison, Effect, compare
from hotlap.experiment.executor import Executor, Group, Pace, TrialGroup
from hotlap.experiment.runs import Runs
from hotlap.experiment.statistics import PLANNED, Rule

__all__ = [
    "PLANNED",
    "Arm",
    "Comparison",
    "Design",
    "EditedScript",
    "Effect",
    "Executor",
    "Group",
    "Pace",
    "Rule",
    "Runs",
    "Sizes",
    "Stack",
    "TrialGroup",
    "compare",
]

"""What is tried next, on top of what, within a budget; and what is confirmed in the end."""

from hotlap.search.gate_runs import GateRuns
from hotlap.search.reasons import unchanged
from hotlap.search.search import Search
from hotlap.search.study_log import Options, StudyLog, facts

__all__ = [
    "GateRuns",
    "Options",
    "Search",
    "StudyLog",
    "facts",
    "unchanged",
]

"""What is tried next, on top of what, within a budget; and what is confirmed in the end."""

from hotlap.search.budget import Budget
from hotlap.search.candidates import Candidate, Candidates
from hotlap.search.confirmation import Confirmation
from hotlap.search.gate_runs import GateRuns
from hotlap.search.leave_one_out import leave_each_out
from hotlap.search.reasons import TIME_OVER, unchanged, without_levers
from hotlap.search.search import Search
from hotlap.search.study_log import Observer, Options, StudyLog, facts

__all__ = [
    "TIME_OVER",
    "Budget",
    "Candidate",
    "Candidates",
    "Confirmation",
    "GateRuns",
    "Observer",
    "Options",
    "Search",
    "StudyLog",
    "facts",
    "leave_each_out",
    "unchanged",
    "without_levers",
]

# Modules of its own that are named as Python's and hotlap's are.
import record
import statistics

from loop import train

train()
import resource

assert record.MINE and statistics.MINE and resource.MINE

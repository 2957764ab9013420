"""The types that are handed from part to part, and their JSON: every public name of these files."""

from hotlap.record.codec import *
from hotlap.record.cpu import *
from hotlap.record.facts import *
from hotlap.record.machine import *
from hotlap.record.moments import *
from hotlap.record.operators import *
from hotlap.record.plan import *
from hotlap.record.run import *
from hotlap.record.study import *
from hotlap.record.trend import *

"""Every watch by its name in a plan. Importing them takes a tenth of a second, so it is left to runs that have one."""

from collections.abc import Mapping

from hotlap.probe.watches.buckets import Buckets
from hotlap.probe.watches.calls import Calls
from hotlap.probe.watches.cpu import Cpu
from hotlap.probe.watches.device_phases import DevicePhases
from hotlap.probe.watches.gradients import Gradients
from hotlap.probe.watches.indices import Indices
from hotlap.probe.watches.input import Input
from hotlap.probe.watches.lines import Lines
from hotlap.probe.watches.memory import Memory
from hotlap.probe.watches.modules import Modules
from hotlap.probe.watches.operators import Operators
from hotlap.probe.watches.shapes import Shapes
from hotlap.probe.watches.switches import Switches
from hotlap.probe.watches.syncs import Syncs
from hotlap.probe.watches.watch import Watch
from hotlap.probe.watches.what_if import WhatIfs
from hotlap.probe.watches.workload import WorkloadWatch

ALL: Mapping[str, type[Watch]] = {
    "switches": Switches,
    "memory": Memory,
    "shapes": Shapes,
    "modules": Modules,
    "gradients": Gradients,
    "cpu": Cpu,
    # First of those that want steps of their own: they ask for nothing where nothing is set, and where steps are so
    # long that time is over before all have had theirs, what a setting costs is what is wanted most.
    "what-if": WhatIfs,
    "buckets": Buckets,
    "indices": Indices,
    "device": DevicePhases,
    "operators": Operators,
    "calls": Calls,
    "input": Input,
    "syncs": Syncs,
    "workload": WorkloadWatch,
    # Last: it may take many steps, and a short script has few.
    "lines": Lines,
}
"""Name in a plan -> the watch."""

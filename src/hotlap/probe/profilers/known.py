"""Profilers by their name in a plan. Importing them takes a tenth of a second, so it is left to runs that have one."""

from collections.abc import Mapping

from hotlap.probe.profilers.calls import Calls
from hotlap.probe.profilers.cpu import Cpu
from hotlap.probe.profilers.device_phases import DevicePhases
from hotlap.probe.profilers.gradients import Gradients
from hotlap.probe.profilers.indices import Indices
from hotlap.probe.profilers.input import Input
from hotlap.probe.profilers.lines import Lines
from hotlap.probe.profilers.memory import Memory
from hotlap.probe.profilers.modules import Modules
from hotlap.probe.profilers.operators import Operators
from hotlap.probe.profilers.profiler import Profiler
from hotlap.probe.profilers.shapes import Shapes
from hotlap.probe.profilers.switches import Switches
from hotlap.probe.profilers.syncs import Syncs
from hotlap.probe.profilers.what_if import WhatIfs
from hotlap.probe.profilers.workload import WorkloadProfiler

ALL: Mapping[str, type[Profiler]] = {
    "switches": Switches,
    "memory": Memory,
    "shapes": Shapes,
    "modules": Modules,
    "gradients": Gradients,
    "cpu": Cpu,
    # First of those that want steps of their own: they ask for nothing where nothing is set, and where steps are so
    # long that time is over before all have had theirs, what a setting costs is what is wanted most.
    "what-if": WhatIfs,
    "indices": Indices,
    "device": DevicePhases,
    "operators": Operators,
    "calls": Calls,
    "input": Input,
    "syncs": Syncs,
    "workload": WorkloadProfiler,
    # Last: it may take many steps, and a short script has few.
    "lines": Lines,
}
"""Name in a plan -> the profiler."""

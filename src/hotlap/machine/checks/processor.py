"""The processors: how many this process may use, how fast they run, and who else wants them."""

from collections.abc import Iterator

from hotlap.machine.facts import THREAD_VARIABLES, Facts
from hotlap.record import Complaint, Weight
from hotlap.units import percent

# Of the processors that we may use, wanted by others while we looked.
_LOAD_SHARE = 0.25
# These drivers call their normal, quick policy "powersave"; the energy preference decides.
# https://docs.kernel.org/admin-guide/pm/intel_pstate.html, .../amd-pstate.html
_CHOOSE_THEMSELVES = ("intel_pstate", "amd-pstate-epp", "amd_pstate_epp")


def check(facts: Facts) -> Iterator[Complaint]:
    """What is granted, what was set by variables, who else computes, and how the clocks are governed."""
    yield from _granted(facts)
    yield from _threads(facts)
    yield from _busy(facts)
    yield from _clocks(facts)


def _granted(facts: Facts) -> Iterator[Complaint]:
    if facts.quota < facts.allowed:
        threads = (facts.torch and facts.torch.num_threads) or facts.machine.physical_cores or facts.allowed
        count = max(1, int(facts.quota))
        yield Complaint(
            code="cpu-quota",
            weight=Weight.COSTLY if threads > count else Weight.MINOR,
            what=f"A cgroup grants {facts.quota:g} cores of time, while {facts.allowed} processors can be seen.",
            cost=f"torch starts {threads} threads, which use the time up early and are then all stopped for the rest "
            "of each period (100 ms by default)."
            if threads > count
            else "Training gets no more than that, however many processors idle.",
            fix=f"Start with OMP_NUM_THREADS={count} (hotlap tune tries it), few loader workers, or raise the "
            "container's limit (--cpus, resources.limits.cpu).",
        )


def _threads(facts: Facts) -> Iterator[Complaint]:
    physical, usable = facts.machine.physical_cores or facts.allowed, facts.machine.usable_cores
    sensible = max(1.0, min(physical, facts.quota))
    for name in THREAD_VARIABLES:
        # A list holds one number for each level of nesting.
        first = facts.environment.get(name, "").split(",")[0].strip()
        count = int(first) if first.isdigit() else 0
        if count > usable:
            yield Complaint(
                code="many-threads",
                weight=Weight.COSTLY,
                what=f"{name}={count} is set, and {usable:g} processors may be used.",
                cost="Threads wait for one another: a step can take several times as long.",
                fix=f"Set {name}={int(sensible)} or less.",
                about=name,
            )
        elif 0 < count < physical and count <= sensible / 2:
            yield Complaint(
                code="few-threads",
                weight=Weight.COSTLY,
                what=f"{name}={count} is set, on {physical} cores.",
                cost=f"An operator on the processor uses {percent(count / physical)} of them; torchrun sets "
                "OMP_NUM_THREADS=1 when it starts several processes.",
                fix=f"For one process set {name}={int(sensible)}; for several, that number divided by theirs.",
                about=name,
            )


def _busy(facts: Facts) -> Iterator[Complaint]:
    if facts.load is None or facts.load < max(_LOAD_SHARE * facts.allowed, 0.5):
        return
    yield Complaint(
        code="busy-machine",
        weight=Weight.MINOR if facts.load < facts.allowed else Weight.COSTLY,
        what=f"{facts.load:.1f} processes wanted a processor in the last minute; there are {facts.allowed}.",
        cost="Steps are slower and vary, and the figures of this machine come out low.",
        fix="Find them with top; measure again when they are done.",
    )


def _clocks(facts: Facts) -> Iterator[Complaint]:
    clocks = facts.clocks
    if clocks.driver in _CHOOSE_THEMSELVES:
        said = f"energy preference {clocks.preference}" if clocks.preference in ("power", "balance_power") else ""
    else:
        said = "frequency governor powersave" if clocks.governor == "powersave" else ""
    if said:
        yield Complaint(
            code="slow-clocks",
            weight=Weight.COSTLY,
            what=f"The processors run under the {said} ({clocks.driver or 'unknown driver'}).",
            cost="They stay at a low clock, or leave it late.",
            fix="sudo cpupower frequency-set -g performance; on a laptop, the power profile of the desktop.",
        )

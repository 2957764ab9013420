"""Checks of the processors: how many this process may use, how fast they run, and who else wants them."""

from hotlap.machine.facts import Facts
from hotlap.record import Complaint, Weight
from hotlap.units import percent

# Of the processors that we may use, wanted by others while we looked.
_LOAD_SHARE = 0.25
# Two real cores make a large product 1.8 times as fast or more, two halves of one core 1.0 to 1.1 times.
_LEAST_GAIN = 1.3
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def quota(facts: Facts) -> Complaint | None:
    """A container's share of time, which torch does not see."""
    cores = facts.cores
    if cores.quota is None or cores.quota >= cores.allowed:
        return None
    threads = facts.torch.num_threads if facts.torch and facts.torch.num_threads else cores.physical or cores.allowed
    count = max(1, int(cores.quota))
    too_many = threads > count
    return Complaint(
        code="cpu-quota",
        weight=Weight.COSTLY if too_many else Weight.MINOR,
        what=f"A cgroup grants {cores.quota:g} cores of time, while {cores.allowed} processors can be seen.",
        cost=(
            f"torch starts {threads} threads, which use the time up early and are then all stopped for the "
            "rest of each period (100 ms by default)."
            if too_many
            else "Training gets no more than that, however many processors idle."
        ),
        fix=f"Start with OMP_NUM_THREADS={count} (hotlap tune tries it), few loader workers, or raise the "
        "container's limit (--cpus, resources.limits.cpu).",
    )


def affinity(facts: Facts) -> Complaint | None:
    """Pinned to a part of the machine."""
    cores = facts.cores
    if cores.allowed >= cores.logical:
        return None
    return Complaint(
        code="affinity",
        weight=Weight.COSTLY if cores.allowed * 2 <= cores.logical else Weight.MINOR,
        what=f"This process may run on {cores.allowed} of {cores.logical} logical processors.",
        cost="Operators and loader workers share these; the others idle, or belong to somebody else.",
        fix="If it was not meant: start without taskset or numactl, ask the batch system for more (--cpus-per-task), "
        "or widen the container's cpuset.",
    )


def one_thread(facts: Facts) -> Complaint | None:
    """A variable that leaves all but a few cores idle."""
    for name in _THREAD_VARIABLES:
        count = _count(facts, name)
        cores = facts.cores.physical or facts.cores.allowed
        if count is None or count >= cores or count > _most(facts) / 2:
            continue
        return Complaint(
            code="few-threads",
            weight=Weight.COSTLY,
            what=f"{name}={count} is set, on {cores} cores.",
            cost=f"An operator on the processor uses {percent(count / cores)} of them; torchrun sets it to 1 when it "
            "starts several processes.",
            fix=f"For one process set {name}={int(_most(facts))}; for several, that number divided by theirs.",
        )
    return None


def many_threads(facts: Facts) -> Complaint | None:
    """A variable that asks for more threads than may run."""
    for name in _THREAD_VARIABLES:
        count = _count(facts, name)
        if count is None or count <= min(facts.cores.allowed, facts.cores.quota or float("inf")):
            continue
        return Complaint(
            code="many-threads",
            weight=Weight.COSTLY,
            what=f"{name}={count} is set, and {_usable(facts)} processors may be used.",
            cost="Threads wait for one another: a step can take several times as long.",
            fix=f"Set {name}={int(_most(facts))} or less.",
        )
    return None


def bound_threads(facts: Facts) -> Complaint | None:
    """Threads are nailed to processors: each further process lands on the same ones."""
    for name in ("KMP_AFFINITY", "GOMP_CPU_AFFINITY", "OMP_PROC_BIND", "OMP_PLACES"):
        value = facts.environment.get(name)
        if not value or value.lower() in ("false", "none", "disabled"):
            continue
        return Complaint(
            code="bound-threads",
            weight=Weight.MINOR,
            what=f"{name}={value} is set.",
            cost="Good for one process; several (loader workers, ranks) are all bound to the same processors.",
            fix="Keep it only if a run with it is faster than one without; workers inherit it.",
        )
    return None


def busy(facts: Facts) -> Complaint | None:
    """Others compute."""
    if facts.load is None or facts.load < _LOAD_SHARE * facts.cores.allowed or facts.load < 0.5:
        return None
    return Complaint(
        code="busy-machine",
        weight=Weight.MINOR if facts.load < facts.cores.allowed else Weight.COSTLY,
        what=f"{facts.load:.1f} processes wanted a processor in the last minute; there are {facts.cores.allowed}.",
        cost="Steps are slower and vary, and the figures of this machine come out low.",
        fix="Find them with top; measure again when they are done (--fresh).",
    )


def cores_do_not_add(facts: Facts) -> Complaint | None:
    """All threads together multiply hardly faster than one, as measured."""
    products = [f for f in facts.figures if (f.name, f.device, f.variant) == ("matmul", "cpu", "float32")]
    alone = next((figure for figure in products if figure.threads == 1), None)
    together = next((figure for figure in products if (figure.threads or 0) > 1), None)
    if alone is None or together is None or together.value.high >= _LEAST_GAIN * alone.value.low:
        return None
    return Complaint(
        code="cores-do-not-add",
        weight=Weight.COSTLY,
        what=f"{together.threads} threads multiply float32 matrices at {together.value.mid / 1e9:.0f} GFLOP/s, one "
        f"alone at {alone.value.mid / 1e9:.0f}.",
        cost="More threads than one do not make a step faster here.",
        fix="Somebody else computes, or the processors of a virtual machine are halves of one core: measure again "
        "(--fresh), look for its neighbours, and let hotlap tune try fewer threads.",
    )


def governor(facts: Facts) -> Complaint | None:
    """Clocks that are held low, or rise late."""
    clocks = facts.clocks
    # In its active mode the driver of Intel and AMD calls its normal, quick policy "powersave"; the preference decides.
    chooses_itself = clocks.driver in ("intel_pstate", "amd-pstate-epp", "amd_pstate_epp")
    if chooses_itself:
        slow = clocks.preference in ("power", "balance_power")
    else:
        slow = clocks.governor in ("powersave", "conservative")
    if not slow:
        return None
    said = f"energy preference {clocks.preference}" if chooses_itself else f"frequency governor {clocks.governor}"
    return Complaint(
        code="slow-clocks",
        weight=Weight.COSTLY if clocks.governor == "powersave" and not chooses_itself else Weight.MINOR,
        what=f"The processors run under the {said} ({clocks.driver or 'unknown driver'}).",
        cost="They stay at or near their lowest clock."
        if not chooses_itself
        else "Their clock rises late and less far.",
        fix="sudo cpupower frequency-set -g performance; on a laptop, the power profile of the desktop.",
    )


def turbo(facts: Facts) -> Complaint | None:
    """No turbo."""
    if facts.clocks.turbo is not False:
        return None
    return Complaint(
        code="no-turbo",
        weight=Weight.MINOR,
        what="Turbo clocks are switched off.",
        cost="What runs on few threads (a script's own Python, small operators) is slower, often by a quarter.",
        fix="If nobody wants it so: echo 0 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo, or echo 1 | "
        "sudo tee /sys/devices/system/cpu/cpufreq/boost.",
    )


def hyper_threads(facts: Facts) -> Complaint | None:
    """More threads than cores."""
    cores = facts.cores
    threads = facts.torch.num_threads if facts.torch else None
    if cores.physical is None or threads is None or threads <= cores.physical:
        return None
    if _count(facts, "OMP_NUM_THREADS") is not None or cores.allowed <= cores.physical:
        return None
    return Complaint(
        code="hyper-threads",
        weight=Weight.MINOR,
        what=f"torch starts {threads} threads on {cores.physical} cores: two share a core.",
        cost="Both halves of a core share its arithmetic units, so large products gain nothing, and small ones lose.",
        fix=f"Try OMP_NUM_THREADS={cores.physical} (the lever threads of hotlap tune does).",
    )


def efficiency_cores(facts: Facts) -> Complaint | None:
    """Cores of two kinds."""
    cores = facts.cores
    if cores.physical is None or cores.fast is None or cores.fast >= cores.physical:
        return None
    slow = cores.physical - cores.fast
    return Complaint(
        code="efficiency-cores",
        weight=Weight.MINOR,
        what=f"{slow} of {cores.physical} cores are of a slower kind.",
        cost="An operator that is cut into equal parts waits for the slowest core, so these can make a step slower.",
        fix=f"Try OMP_NUM_THREADS={cores.fast}, and leave the slower cores to the loader's workers.",
    )


def memory_nodes(facts: Facts) -> Complaint | None:
    """Several sockets, or several memory nodes of one."""
    nodes = facts.cores.numa_nodes
    if nodes is None or nodes < 2:
        return None
    return Complaint(
        code="memory-nodes",
        weight=Weight.MINOR,
        what=f"The processors belong to {nodes} memory nodes.",
        cost="Memory of another node is further away: a training on the processor that spreads over all of them can be "
        "slower than on one, and copies to a GPU are slower from the wrong one.",
        fix="Try numactl --cpunodebind=0 --membind=0 for one process, and one process for each node.",
    )


def _count(facts: Facts, name: str) -> int | None:
    # OMP_NUM_THREADS may be a list, one number for each level of nesting.
    first = facts.environment.get(name, "").split(",")[0].strip()
    return int(first) if first.isdigit() and int(first) > 0 else None


def _most(facts: Facts) -> float:
    """Threads that make sense for one process."""
    return max(1.0, min(float(facts.cores.physical or facts.cores.allowed), facts.cores.quota or float("inf")))


def _usable(facts: Facts) -> str:
    return f"{min(float(facts.cores.allowed), facts.cores.quota or float('inf')):g}"


ALL = (
    quota,
    affinity,
    many_threads,
    one_thread,
    busy,
    cores_do_not_add,
    governor,
    hyper_threads,
    efficiency_cores,
    turbo,
    memory_nodes,
    bound_threads,
)

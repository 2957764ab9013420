"""unbound-threads: the threads of CPU operators wander from core to core.

What it says: with how many threads torch computes, and the command that binds each to a core of its own.
Why it is bad: a thread that moves loses its cache, and two on the hyper-threads of one core wait for each other
(PyTorch's tuning guide, "OMP_PROC_BIND=CLOSE"). Nothing is said where processes that are started later would all
inherit the one core of the main thread (pytorch/pytorch#101850, #91989): loaders with workers, several ranks.
Example: a training on the CPU of a workstation with sixteen cores, without a loader's workers.
Risk: processes that are started later inherit the binding; no number changes.

Before:

    $ python train.py

After:

    $ OMP_PROC_BIND=close OMP_PLACES=cores python train.py
"""

from hotlap.record import Finding, Machine, Phase, Run
from hotlap.rules.advice import advice
from hotlap.rules.step import on_cpu

_BINDS = {"OMP_PROC_BIND": "close", "OMP_PLACES": "cores"}
_CHOICES = (*_BINDS, "GOMP_CPU_AFFINITY", "KMP_AFFINITY")

# With two cores the scheduler has little to choose from.
MIN_CORES = 3

# What binding was reported to save is a small part of the arithmetic.
_PART = 0.2


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """Several threads on several cores, which nobody bound."""
    if machine is None or machine.system != "Linux" or machine.usable_cores < MIN_CORES or not on_cpu(run):
        return None
    workers = any(loader.num_workers for loader in run.loaders)
    chosen = run.switches is None or any(name in run.switches.environment for name in _CHOICES)
    if chosen or workers or run.world_size > 1 or (run.num_threads or 1) == 1 or not run.step_s:
        return None
    phases = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)
    at_most_s = _PART * sum(run.mean_phase_s(phase) or 0.0 for phase in phases)
    evidence = f"torch computes with {run.num_threads} threads, which may move among {machine.usable_cores:g} cores"
    return advice(run, at_most_s, evidence, environment=_BINDS)

"""Checks of the limits that the system sets to one user (`ulimit`)."""

from hotlap.machine.facts import Facts
from hotlap.record import Complaint, Weight
from hotlap.units import size

# Each tensor that a worker hands over holds a file open; the usual soft limit of 1,024 is met by two dozen workers.
_FEW_FILES = 4096
# A loader worker, and each of its threads, counts as a process.
_FEW_PROCESSES = 1024
# What libraries for fast networks between machines pin for a start. https://docs.nvidia.com/deeplearning/nccl/
_LITTLE_LOCKED_BYTES = 64 << 20


def open_files(facts: Facts) -> Complaint | None:
    """Few open files."""
    files, hard = facts.limits.open_files, facts.limits.open_files_hard
    if files is None or files >= _FEW_FILES:
        return None
    most = 65536 if hard is None else hard
    return Complaint(
        code="few-open-files",
        weight=Weight.MINOR,
        what=f"A process may hold {files} files open.",
        cost='With many loader workers or small files a run ends with "Too many open files".',
        fix=f"ulimit -n {most} before the start"
        + ("." if most > files else ", after raising the hard limit (/etc/security/limits.conf, --ulimit nofile)."),
    )


def processes(facts: Facts) -> Complaint | None:
    """Few processes."""
    count = facts.limits.processes
    if count is None or count >= _FEW_PROCESSES:
        return None
    return Complaint(
        code="few-processes",
        weight=Weight.COSTLY,
        what=f"This user may have {count} processes and threads.",
        cost='Workers and threads of operators fail to start ("Resource temporarily unavailable").',
        fix="ulimit -u 65536 before the start, or raise the hard limit (--ulimit nproc, pids.max of the cgroup).",
    )


def locked(facts: Facts) -> Complaint | None:
    """Little memory that may be locked, on a machine for several GPUs."""
    most = facts.limits.locked_bytes
    if most is None or most >= _LITTLE_LOCKED_BYTES or len(facts.machine.gpus) < 2:
        return None
    return Complaint(
        code="little-locked-memory",
        weight=Weight.MINOR,
        what=f"A process may lock {size(most)} of memory.",
        cost="Between machines, NCCL over InfiniBand needs more and fails or falls back to TCP. (pin_memory does not.)",
        fix="ulimit -l unlimited, or start the container with --ulimit memlock=-1.",
    )


ALL = (processes, open_files, locked)

"""A run that gives no times -> why: one of a few states, and a sentence."""

from dataclasses import dataclass

from hotlap.record import Failure, Run, Status

# What torch, Python and C++ say; the first that is found counts, so the more special stand first.
_OUT_OF_DEVICE = ("out of memory. Tried to allocate", "CUDA out of memory", "CUDA error: out of memory")
_SAID = {
    # The last: a worker was gone before its batch could be opened: connection reset, refused, or a file not there.
    Failure.LOST_WORKERS: ("DataLoader worker (pid", "DataLoader timed out", "in rebuild_storage_fd"),
    Failure.DEVICE_MEMORY: (*_OUT_OF_DEVICE, "OutOfMemoryError"),
    Failure.HOST_MEMORY: ("MemoryError", "can't allocate memory", "Cannot allocate memory", "std::bad_alloc"),
}

_NO_TIMES = (Status.CRASHED, Status.KILLED, Status.HUNG, Status.SILENT)


@dataclass(frozen=True, slots=True)
class Failed:
    """What is written into the trial."""

    kind: Failure
    why: str
    """One clause."""


def failed(run: Run) -> Failed | None:
    """Why the run itself gives no times; None if it does."""
    if run.status in _NO_TIMES:
        kind, error = _kind(run), (run.error or "no reason recorded").rstrip(".")
        return Failed(kind, f"{_WORDS[kind]} ({error})" if kind in _WORDS else f"{run.status}: {error}")
    if not run.unreached:
        return None
    why = (
        f"the edit of {' and '.join(run.unreached)} was not run: the command writes that file anew or runs a copy; "
        "give hotlap one that runs the file itself"
    )
    return Failed(Failure.NOT_INSTALLED, why)


_WORDS = {
    Failure.HOST_MEMORY: "the machine's memory ran out",
    Failure.DEVICE_MEMORY: "the GPU's memory ran out",
    Failure.LOST_WORKERS: "the loader lost its workers",
    Failure.HUNG: "it hung",
}


def _kind(run: Run) -> Failure:
    if run.status is Status.HUNG:
        return Failure.HUNG
    if run.status is Status.KILLED and "SIGKILL" in (run.error or ""):
        # Nobody but hotlap, which notes when it does, and the system's out-of-memory killer ends a trial like that.
        return Failure.HOST_MEMORY
    # The error first: what a script prints may speak of errors that it has overcome.
    for text in (run.error or "", run.output):
        for kind, said in _SAID.items():
            if any(words in text for words in said):
                return kind
    return Failure.CRASHED

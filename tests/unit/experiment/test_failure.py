"""Runs that give no times, as states: memory of host and device, hangs, lost workers, plain errors."""

import pytest

from hotlap.experiment.failure import failed
from hotlap.record import Failure, Run, Status

CUDA = "OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 10.00 GiB"
HIP = "OutOfMemoryError: HIP out of memory. Tried to allocate 256.00 MiB."
CPU = (
    "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried "
    "to allocate 4000000000000 bytes. Error code 12 (Cannot allocate memory)"
)
WORKER = "RuntimeError: DataLoader worker (pid(s) 4711) exited unexpectedly"
KILLED_WORKER = "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed. "
SHM = (
    "RuntimeError: DataLoader worker (pid 12) is killed by signal: Bus error. It is possible that dataloader's workers "
    "are out of shared memory. Please try to raise your shared memory limit."
)
SLOW = "RuntimeError: DataLoader timed out after 5 seconds"
KILLED = "it was ended by SIGKILL; the system kills like that when memory runs out"


@pytest.mark.parametrize(
    ("status", "error", "kind", "says"),
    [
        (Status.CRASHED, CUDA, Failure.DEVICE_MEMORY, "the GPU's memory ran out"),
        (Status.CRASHED, HIP, Failure.DEVICE_MEMORY, "the GPU's memory ran out"),
        (Status.CRASHED, CPU, Failure.HOST_MEMORY, "the machine's memory ran out"),
        (Status.CRASHED, "MemoryError: ", Failure.HOST_MEMORY, "the machine's memory ran out"),
        (Status.KILLED, KILLED, Failure.HOST_MEMORY, "the machine's memory ran out"),
        (Status.KILLED, "it was ended by SIGSEGV", Failure.CRASHED, "SIGSEGV"),
        (Status.CRASHED, WORKER, Failure.LOST_WORKERS, "the loader lost its workers"),
        (Status.CRASHED, KILLED_WORKER, Failure.LOST_WORKERS, "the loader lost its workers"),
        (Status.CRASHED, SHM, Failure.LOST_WORKERS, "out of shared memory"),
        (Status.CRASHED, SLOW, Failure.LOST_WORKERS, "timed out"),
        (Status.HUNG, "it made 7 training steps and then none for too long", Failure.HUNG, "it hung"),
        (Status.CRASHED, "ValueError: no", Failure.CRASHED, "ValueError: no"),
        (Status.SILENT, "it never imported torch", Failure.CRASHED, "never imported torch"),
    ],
)
def test_each_is_a_state_with_its_reason(status: Status, error: str, kind: Failure, says: str) -> None:
    found = failed(Run(status=status, error=error))
    assert found is not None
    assert found.kind is kind
    assert says in found.why
    assert error.strip().rstrip(".") in found.why


def test_the_error_counts_more_than_what_was_printed_before() -> None:
    run = Run(status=Status.CRASHED, error=WORKER, output="CUDA out of memory. Retrying with half of the batch.")
    found = failed(run)
    assert found is not None and found.kind is Failure.LOST_WORKERS


def test_an_error_in_a_process_of_the_script_is_read_off_its_output() -> None:
    run = Run(status=Status.CRASHED, error="it left with exit code 1", output=f"Traceback ...\n{CUDA}\n")
    found = failed(run)
    assert found is not None and found.kind is Failure.DEVICE_MEMORY


@pytest.mark.parametrize("status", [Status.COMPLETE, Status.ENDED, Status.LAPSED])
def test_a_run_that_made_its_steps_has_not_failed(status: Status) -> None:
    assert failed(Run(status=status, output="MemoryError was handled")) is None


def test_a_run_that_its_edits_did_not_reach_has_failed() -> None:
    found = failed(Run(status=Status.COMPLETE, unreached=("/x/train.py", "/x/model.py")))
    assert found is not None and found.kind is Failure.NOT_INSTALLED
    assert "the edit of /x/train.py and /x/model.py was not run" in found.why


def test_a_worker_that_was_gone_before_its_batch_was_opened_is_lost() -> None:
    error = "ConnectionResetError: [Errno 104] Connection reset by peer"
    output = (
        f'  File "torch/multiprocessing/reductions.py", line 538, in rebuild_storage_fd\n    fd = df.detach()\n{error}'
    )
    found = failed(Run(status=Status.CRASHED, error=error, output=output))
    assert found is not None
    assert found.kind is Failure.LOST_WORKERS
    # The signal of the worker's end can break off what the script prints of its error.
    broken_off = failed(Run(status=Status.CRASHED, error=f"{error}, in rebuild_storage_fd", output="Traceback"))
    assert broken_off is not None and broken_off.kind is Failure.LOST_WORKERS
    other = failed(Run(status=Status.CRASHED, error=error, output=error))
    assert other is not None and other.kind is Failure.CRASHED

"""Slurm, by its commands. Options of a site (account, GPUs) go through Slurm's own variables: SBATCH_ACCOUNT, ..."""

import math
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

from hotlap.errors import UserError
from hotlap.launch.placed import PRINTED, State

# https://slurm.schedmd.com/squeue.html#SECTION_JOB-STATE-CODES
_WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "SUSPENDED")
_RUNNING = ("RUNNING", "COMPLETING", "STAGE_OUT", "SIGNALING", "RESIZING", "STOPPED")
_LOST = ("PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "REVOKED", "DEADLINE")
# What is said of a job that ended some minutes ago; where no controller answers it is something else.
_FORGOTTEN = "Invalid job id"


class Slurm:
    """`partition`: None for Slurm's default."""

    name = "slurm"
    one_kind = "Name a partition of one kind: --on slurm:PARTITION."

    def __init__(self, partition: str | None = None) -> None:
        self._partition = partition

    def submit(self, command: Sequence[str], folder: Path, *, limit_s: float) -> str:
        """As `hotlap.launch.placed.Backend`."""
        words = ["sbatch", "--parsable", "--job-name=hotlap", "--nodes=1", "--exclusive", "--requeue"]
        words += [f"--time={math.ceil(limit_s / 60)}", f"--output={folder / PRINTED}", "--open-mode=append"]
        words += [f"--partition={self._partition}"] if self._partition else []
        done = _call([*words, f"--wrap={shlex.join(command)}"])
        if done.returncode:
            raise UserError(f"Slurm refused the job: {_words(done) or 'no reason was given'}.")
        # "id" or "id;cluster".
        return done.stdout.strip().partition(";")[0]

    def state(self, job: str) -> tuple[State, str]:
        """As `hotlap.launch.placed.Backend`. What is over leaves `squeue`; without accounting, `sacct` is silent."""
        for words in (
            ["squeue", "--noheader", f"--jobs={job}", "--format=%T"],
            ["sacct", "--noheader", "--parsable2", "--allocations", f"--jobs={job}", "--format=State"],
        ):
            if (found := _call(words).stdout.split()) and found[0]:
                return _known(found[0])
        told = _call(["scontrol", "show", "job", job])
        if told.returncode and _FORGOTTEN not in told.stderr:
            return State.SILENT, _words(told)
        return _known(told.stdout.partition("JobState=")[2].split(" ")[0] or "unknown")

    def cancel(self, job: str) -> None:
        """As `hotlap.launch.placed.Backend`."""
        _call(["scancel", job])


def _known(word: str) -> tuple[State, str]:
    if word in (*_WAITING, *_RUNNING):
        return State.PLACED, word
    return (State.LOST if word in _LOST else State.OVER), word


def _call(words: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        if words[0] == "sacct":
            return subprocess.CompletedProcess(words, 1, "", "")
        raise UserError(f"{words[0]} is not found: is this a node from which jobs are submitted to Slurm?") from None


def _words(done: "subprocess.CompletedProcess[str]") -> str:
    return " ".join(done.stderr.split())[:300].rstrip(".")

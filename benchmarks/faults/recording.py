"""Plans -> runs by the real probe, each in a child forked off a process that has imported torch already.

What a launcher's child does at its start (importing torch) takes longer than the 400 steps of these scripts; from the
arrival of the probe on everything is the same. Records are kept on disk by what was planned, so that a changed gate can
judge them again without running anything.
"""

import atexit
import hashlib
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

# What every script of ours imports, and what torch itself imports when the first optimizer is made.
import sklearn.datasets  # noqa: F401 - for its children
import torch
import torch._dynamo

from hotlap.launch.outcome import left
from hotlap.launch.workplace import probe_environment
from hotlap.probe import bootstrap, stand_in
from hotlap.record import Plan, Run, Status, encode, load, save

_LOOK_S = 0.02
# The 400 steps take seconds, on a machine that is busy otherwise some minutes.
_LIMIT_S = 900.0


class Recorder:
    """Is called like a launcher (`hotlap.experiment.Runs`). `folder` keeps the records.

    `texts`: path -> source of the scripts, so that runs as written start the same way as those with a change.
    """

    def __init__(self, folder: Path, texts: Mapping[str, str]) -> None:
        self._folder = folder
        self._texts = dict(texts)
        self._times_asked: Counter[bytes] = Counter()
        self.num_recorded = 0

    def __call__(self, plans: Sequence[Plan], *, limit_s: float) -> list[Run]:
        """One after the other; none waits for a turn."""
        return [self._one(replace(plan, turn=None), limit_s) for plan in plans]

    def _one(self, plan: Plan, limit_s: float) -> Run:
        key = encode(plan) + str(torch.__version__).encode()
        if not plan.replaced:
            # The script as written is asked for twice to see whether it repeats itself: two runs, not one run twice.
            self._times_asked[key] += 1
            key += str(self._times_asked[key]).encode()
            plan = replace(plan, replaced=self._texts)
        key += "".join(sorted(plan.replaced.values())).encode()
        kept = self._folder / f"{hashlib.blake2b(key, digest_size=12).hexdigest()}.json"
        if kept.exists():
            return load(kept, Run)
        run = _forked(plan, limit_s)
        self.num_recorded += 1
        save(run, kept)
        return run


def _forked(plan: Plan, limit_s: float) -> Run:
    out = Path(tempfile.mkdtemp(prefix="hotlap-faults-"))
    save(replace(plan, out=str(out)), out / "plan.json")
    child = os.fork()
    if child == 0:
        _train(plan, out)
    code = _await(child, limit_s)
    run = left(out)
    shutil.rmtree(out, ignore_errors=True)
    if run is None:
        return Run(status=Status.SILENT, error=f"no record; exit code {code}")
    if run.status is Status.CRASHED or code:
        return replace(run, status=Status.CRASHED, error=run.error or f"exit code {code}")
    return run


def _await(child: int, limit_s: float) -> int:
    """Its exit code; a child that takes too long is ended."""
    deadline = time.monotonic() + max(_LIMIT_S, limit_s)
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(_LOOK_S)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _train(plan: Plan, out: Path) -> None:
    """CHILD: what `sitecustomize` and the interpreter do in a process that hotlap starts; does not return."""
    os.setsid()
    # Without a parent to wait for, a process leaves as soon as its record is written.
    os.environ.update(probe_environment(out, marker=out.name) | {"HOTLAP_PARENT": ""})
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    code = 0
    try:
        bootstrap.arrive(str(out / "plan.json"))
        sys.argv = ["stand_in.py", *plan.command[1:]]
        stand_in.main()
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        code = 1
    atexit._run_exitfuncs()
    os._exit(code)

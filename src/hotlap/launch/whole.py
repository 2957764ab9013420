"""The user's command, run to its end for real and only watched: its streams, signals and exit code are its own."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import FrameType

from hotlap.errors import RecordError, UserError
from hotlap.launch.outcome import ended, left, silent
from hotlap.launch.scratch import OwnFolder, remove_abandoned
from hotlap.launch.workplace import probe_environment
from hotlap.record import Plan, Run, Status, load, save
from hotlap.record.progress import Progress

# How often the parent looks at what was written. It shares the machine with a training that is measured.
_LOOK_S = 1.0

_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
# A terminal sends these to all processes in its foreground by itself.
_FROM_TERMINAL = (signal.SIGINT, signal.SIGQUIT)


class WholeRun:
    """A context manager around one command under `Plan.whole`; leaving it removes every file of ours."""

    def __init__(self, plan: Plan) -> None:
        remove_abandoned()
        self._own = OwnFolder()
        self.out = self._own.folder
        self.plan = replace(plan, out=str(self.out))
        self._progress = Progress(self.out / "progress")
        save(self.plan, self.out / "plan.json")
        self._seen_ns = 0

    def __enter__(self) -> "WholeRun":
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.close()
        self._own.close()

    def run(self, *, looked: Callable[[], None]) -> int:
        """Start the command and wait for its end: its exit code, or minus the signal that ended it.

        `looked` is called about once a second.

        Raises:
            UserError: it cannot be started.
        """
        shares = _shares_terminal()
        try:
            process = subprocess.Popen(
                self.plan.command,
                env=dict(os.environ) | probe_environment(self.out, marker=self.out.name),
                # Without a terminal the command is a group of its own, or a signal to our group would reach it twice.
                process_group=None if shares else 0,
            )
        except OSError as error:
            raise UserError(f"{self.plan.command[0]} cannot be started: {error.strerror}.") from None
        with self._forwarding(process, shares=shares):
            while process.returncode is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_LOOK_S)
                looked()
        return process.returncode

    @contextlib.contextmanager
    def _forwarding(self, process: "subprocess.Popen[bytes]", *, shares: bool) -> Iterator[None]:
        """What is sent to us is meant for the training. `shares`: it hears of the terminal by itself."""

        def forward(number: int, _: FrameType | None) -> None:
            if not (shares and number in _FROM_TERMINAL):
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(number)

        # What is ignored (nohup, a background job) stays ignored, for the command as well.
        before = {n: signal.getsignal(n) for n in _FORWARDED if signal.getsignal(n) is not signal.SIG_IGN}
        for number in before:
            signal.signal(number, forward)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def partial(self) -> Run | None:
        """What the training has written on its way, if it is new since the last call."""
        path = next(iter(sorted(self.out.glob("partial-*.json"))), None)
        if path is None:
            return None
        with contextlib.suppress(OSError, RecordError):
            written_ns = path.stat().st_mtime_ns
            if written_ns != self._seen_ns:
                self._seen_ns = written_ns
                return load(path, Run)
        return None

    def outcome(self, exit_code: int) -> Run:
        """The Run of a command that has ended."""
        run = left(self.out)
        if run is None:
            run = Run(status=Status.SILENT, error=silent(self.out), exit_code=exit_code)
        if exit_code:
            return ended(run, exit_code, self._progress)
        return run if run.status is Status.SILENT else replace(run, status=Status.COMPLETE, error=None, exit_code=0)


def _shares_terminal() -> bool:
    """This process is in the foreground of a terminal."""
    with contextlib.suppress(OSError), open("/dev/tty", "rb", buffering=0) as terminal:
        return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    return False


def end_like(exit_code: int) -> int:
    """The exit code for a command that ended with this one; a signal ends this process as well."""
    if exit_code >= 0:
        return exit_code
    number = -exit_code
    with contextlib.suppress(OSError, ValueError):
        signal.signal(number, signal.SIG_DFL)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os.kill(os.getpid(), number)
    return 128 + number  # a signal that does not end a process

"""Starts runs of one command as forks of a process that has imported what it imports (`hotlap.probe.template`)."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import IO, Any, Protocol

from hotlap.launch.reaper import end_all
from hotlap.launch.streams import readable
from hotlap.launch.workplace import Workplace

_MOST_BYTES = 1 << 16

# Between two looks whether the user has interrupted.
_LOOK_S = 0.05

# Differ from run to run, and nothing that is imported reads them before the plan is there.
_OF_A_RUN = ("HOTLAP_PLAN", "HOTLAP_RUN", "HOTLAP_CACHE")


class Process(Protocol):
    """What is asked of a process, as `subprocess.Popen` has it, with its output to be read."""

    pid: int
    returncode: Any
    stdout: Any
    stderr: Any

    def poll(self) -> int | None:
        """Its exit code, or minus the signal that ended it; None while it runs."""

    def wait(self) -> int:
        """The same, when it has ended."""


class TemplateError(Exception):
    """The template is not there any more."""


class Template:
    """One process that waits, and those that were forked from it. `close` ends all of them."""

    def __init__(self, place: Workplace, environment: Mapping[str, str], stdin: int, *, imports: bytes) -> None:
        """`environment`: of the runs; `imports`: what `hotlap.probe.imported` wrote in one of them."""
        self._place = place
        self._environment = common(environment)
        self._ended: dict[int, int] = {}
        record = place.out / "imports.json"
        record.write_bytes(imports)
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        number = theirs.fileno()
        own = {"HOTLAP_PLAN": str(place.out / "none"), "HOTLAP_TEMPLATE": f"{number}:{record}"}
        with theirs, (place.out / "printed").open("wb") as printed:
            self._process = subprocess.Popen(
                place.command(),
                env=dict(environment) | own,
                stdin=stdin,
                stdout=printed,
                stderr=printed,
                pass_fds=(number,),
                start_new_session=True,
            )

    def fits(self, environment: Mapping[str, str]) -> bool:
        """What is imported in this environment is what the template has imported."""
        return self._environment == common(environment)

    def why_not(self, *, timeout_s: float, interrupted: Callable[[], bool]) -> str | None:
        """Wait until it has imported everything: why it cannot be used, or None.

        Raises:
            KeyboardInterrupt: `interrupted` says so.
        """
        deadline = time.monotonic() + timeout_s
        while not readable([self._channel.fileno()], _LOOK_S):
            if interrupted():
                raise KeyboardInterrupt
            if time.monotonic() > deadline:
                return "the imports take too long"
        try:
            found = self._received()["why_not"]
        except TemplateError:
            return "the imports fail where they are made ahead"
        return None if found is None else str(found)

    def start(self, place: Workplace, environment: Mapping[str, str], stdin: int) -> "Forked":
        """A run.

        Raises:
            TemplateError: it has ended.
        """
        path = place.out / "environ.json"
        path.write_text(json.dumps(dict(environment)), encoding="utf-8")
        request = {"environ": str(path), "spec": str(place.spec)}
        stdout, stderr = os.pipe(), os.pipe()
        try:
            socket.send_fds(self._channel, [json.dumps(request).encode()], [stdin, stdout[1], stderr[1]])
            while "started" not in (message := self._received()):
                self._note(message)
        except (OSError, TemplateError):
            for descriptor in (stdout[0], stderr[0]):
                os.close(descriptor)
            raise TemplateError from None
        finally:
            for descriptor in (stdout[1], stderr[1]):
                os.close(descriptor)
        return Forked(self, message["started"], os.fdopen(stdout[0], "rb"), os.fdopen(stderr[0], "rb"))

    def ended(self, pid: int, *, wait: bool) -> int | None:
        """How a fork has ended, as `subprocess` writes it; None if it has not."""
        while pid not in self._ended:
            if not wait and not readable([self._channel.fileno()], 0):
                return None
            try:
                self._note(self._received())
            except TemplateError:  # the kernel ends the forks of a template that has ended
                self._ended[pid] = -signal.SIGKILL
        return self._ended[pid]

    def reap(self, pid: int) -> None:
        """The number of an ended fork may be given to another process."""
        with contextlib.suppress(OSError):
            self._channel.send(json.dumps({"reap": pid}).encode())

    def close(self) -> None:
        """No process of it is left."""
        self._channel.close()
        end_all(self._process.pid, self._place.marker)
        self._process.wait()
        self._place.remove()

    def _received(self) -> dict[str, Any]:
        try:
            text = self._channel.recv(_MOST_BYTES)
        except OSError:
            text = b""
        if not text:
            raise TemplateError
        message: dict[str, Any] = json.loads(text)
        return message

    def _note(self, message: Mapping[str, Any]) -> None:
        self._ended[message["pid"]] = message["status"]


class Forked:
    """One process that was forked from a template."""

    def __init__(self, template: Template, pid: int, stdout: IO[bytes], stderr: IO[bytes]) -> None:
        self._template = template
        self._reaped = False
        self.pid = pid
        self.stdout, self.stderr = stdout, stderr
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit code, or minus the signal that ended it; None while it runs."""
        if self.returncode is None:
            self.returncode = self._template.ended(self.pid, wait=False)
        return self.returncode

    def wait(self) -> int:
        """The same, when it has ended; all signals to it were sent."""
        code = self._template.ended(self.pid, wait=True)
        assert code is not None
        if not self._reaped:
            self._reaped = True
            self._template.reap(self.pid)
        self.returncode = code
        return code


def common(environment: Mapping[str, str]) -> dict[str, str]:
    """What an environment shares with those of other runs."""
    return {name: value for name, value in environment.items() if name not in _OF_A_RUN}


def can_fork(command: tuple[str, ...]) -> bool:
    """A script or a module, run by the Python that runs hotlap."""
    known = len(command) >= 2 and command[0] == sys.executable
    return known and (command[1] == "-m" or not command[1].startswith("-"))

"""Starts the processes of a trial group, all alike: afresh, or as forks of a template (docs/measuring.md).

A template is a process that has imported what runs of one command import (`hotlap.probe.template`).
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, Protocol

from hotlap.launch.reaper import end_all
from hotlap.launch.streams import StandardInput, readable
from hotlap.launch.workplace import Workplace
from hotlap.record import Plan

# Set to anything: every process is started afresh.
VARIABLE = "HOTLAP_FRESH_STARTS"

Environment = Callable[[Plan], Mapping[str, str]]

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


class Starter:
    """Starts processes; the first run of a command, always afresh, tells what the others' template imports.

    `environment` answers which variables a plan's levers want; `base`: where the template's own files go; `timeout_s`:
    what its imports may take. Without `templates` every process is started afresh.
    """

    def __init__(
        self,
        environment: Environment,
        *,
        stdin: StandardInput,
        base: Path,
        templates: bool,
        timeout_s: float,
        interrupted: Callable[[], bool],
    ) -> None:
        self._environment = environment
        self._stdin = stdin
        self._base = base
        self._wanted = templates and VARIABLE not in os.environ
        self._timeout_s = timeout_s
        self._interrupted = interrupted
        self._imports = b""
        self._encloses = False
        self._imported_by: tuple[tuple[str, ...], str] | None = None
        self._template: Template | None = None
        self.why_afresh: str | None = None
        """Why runs of this command cannot be forks; None while that is not known, or they are."""

    def start(self, places: Sequence[Workplace]) -> list[Process]:
        """One process each.

        Raises:
            KeyboardInterrupt: the user has interrupted.
        """
        environments = [place.environment(self._environment(place.plan)) for place in places]
        template = self._ready(places[0].plan) if all(self._may_be_fork(place.plan) for place in places) else None
        starts = list(zip(places, environments, strict=True))
        if template is not None and all(map(template.fits, environments)):
            forks: list[Process] = []
            try:
                for start in starts:
                    with self._stdin.opened() as stdin:
                        forks.append(template.start(*start, stdin))
                return forks
            except TemplateError:
                self.why_afresh = "the process that had made them ended"
                self.close()
                for fork in forks:
                    fork.wait()
        return [self._afresh(*start) for start in starts]

    def learn(self, place: Workplace) -> None:
        """A run is over: remember what it has imported."""
        plan, record = place.plan, place.out / "imports.json"
        if self._wanted and not self._imports and not plan.replaced and can_fork(plan.command) and record.exists():
            seen = record.read_bytes()
            # A launcher's process has other words, and what it starts is started by itself.
            if json.loads(seen)["command"][1:] == list(plan.command[1:]):
                self._imports, self._imported_by = seen, (plan.command, plan.cwd)
                self._encloses = place.encloses

    def close(self) -> None:
        """End the template and its forks."""
        if self._template is not None:
            self._template.close()
            self._template = None

    def _may_be_fork(self, plan: Plan) -> bool:
        """A trial of the command that is known; edited, where edited files can be written into its scratch layer."""
        known = self._imported_by == (plan.command, plan.cwd) and self.why_afresh is None
        return known and (self._encloses or not plan.replaced) and not (plan.afresh or plan.profilers)

    def _ready(self, plan: Plan) -> Template | None:
        """A template that has made the imports in the environment of the baseline; None where it cannot."""
        if self._template is None:
            plain = replace(plan, always=(), arms=((),), turn=None, replaced={})
            place = Workplace(plain, base=self._base, number=0, folders=())
            environment = place.environment(self._environment(plain))
            with self._stdin.opened() as stdin:
                self._template = Template(place, environment, stdin, imports=self._imports)
            self.why_afresh = self._template.why_not(timeout_s=self._timeout_s, interrupted=self._interrupted)
            if self.why_afresh is not None:
                self.close()
        return self._template

    def _afresh(self, place: Workplace, environment: Mapping[str, str]) -> Process:
        with self._stdin.opened() as stdin:
            return subprocess.Popen(
                place.command(),
                env=dict(environment),
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )

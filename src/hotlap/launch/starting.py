"""How the processes of a heat are started, all alike: afresh, or as forks of a template (docs/measuring.md)."""

import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from hotlap.launch.streams import StandardInput
from hotlap.launch.template import Process, Template, TemplateError, can_fork
from hotlap.launch.workplace import Workplace
from hotlap.record import Plan

# Set to anything: every process is started afresh.
VARIABLE = "HOTLAP_FRESH_STARTS"

Environment = Callable[[Plan], Mapping[str, str]]


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
        if template is None or not all(map(template.fits, environments)):
            return [self._afresh(*start) for start in zip(places, environments, strict=True)]
        forks: list[Process] = []
        try:
            for place, environment in zip(places, environments, strict=True):
                with self._stdin.opened() as stdin:
                    forks.append(template.start(place, environment, stdin))
        except TemplateError:
            self.why_afresh = "the process that had made them ended"
            self.close()
            for fork in forks:
                fork.wait()
            return [self._afresh(*start) for start in zip(places, environments, strict=True)]
        return forks

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
        return known and (self._encloses or not plan.replaced) and not (plan.afresh or plan.watches)

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

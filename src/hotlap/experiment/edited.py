"""Levers -> the plan of a run under them: the text that would be handed over, and variables of the environment."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from hotlap import levers, source
from hotlap.errors import UserError
from hotlap.record import LeverSpec, Plan, Run

Stack = tuple[LeverSpec, ...]


class EditedScript:
    """The user's script under any levers. `known`: answers what is recorded of the baseline, once that is known."""

    def __init__(self, known: Callable[[], Run], *, cwd: str) -> None:
        self._known = known
        self._cwd = Path(cwd)
        self._texts: dict[str, Mapping[str, str]] = {}

    def plan(self, plan: Plan, stack: Stack) -> Plan:
        """`plan` with these levers, and no others, from the start of the process.

        Raises:
            UserError: one of them cannot be written, or not together with the others.
        """
        return replace(plan, always=stack, replaced=dict(self.texts(stack)))

    def texts(self, stack: Stack) -> Mapping[str, str]:
        """Path -> text of the files that these levers change.

        Raises:
            UserError: as `plan`.
        """
        if not stack:
            return {}
        key = repr([sorted(spec.items()) for spec in stack])
        if key not in self._texts:
            self._texts[key] = self._written(stack, self._known())
        return self._texts[key]

    def _written(self, stack: Stack, run: Run) -> Mapping[str, str]:
        for spec in stack:
            lever = levers.from_spec(spec)
            if not lever.by_environment and not lever.edits(run):
                raise UserError(f"{lever.title()} finds no line of the script that it could change.")
        return source.patch(levers.edits_of(stack, run), root=self._cwd).texts

"""What every lever answers, and the one object through which it changes anything."""

import re
from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Self, dataclass_transform

from hotlap.errors import UserError
from hotlap.levers.frameworks import in_their_words
from hotlap.record import Ceiling, LeverSpec, Machine, Phase, Run, lever_title
from hotlap.source import CannotEdit, Edit, InsertAfterImports, patch, scripts, top_of


class Scope(StrEnum):
    """Between which two moments a lever can be switched."""

    STEP = "step"
    """Between two steps: compared inside one process."""
    LOADER = "loader"
    """Before the loader is made: compared between processes."""
    PROCESS = "process"
    """Before the process starts: compared between processes."""


class Numerics(StrEnum):
    """What a lever does to the numbers; the gate holds it to that."""

    EXACT = "exact"
    """Losses, samples and random states stay equal bit for bit."""
    ROUNDING = "rounding"
    """Same formula on the same samples, other rounding."""
    STATISTICAL = "statistical"
    """Other numbers, equal training."""
    RECIPE = "recipe"
    """Another training; only on request."""


class Patch:
    """Remembers what it replaced and restores it in reverse order, but for what the script has set since."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self.idle: list[Callable[[], str | None]] = []
        """Each answers for something that a lever put in place: why it is not at work, "" if it was never asked for
        anything, None if it is at work. A lever of which nothing is at work was not tried."""
        self.on_optimizer: list[Callable[[Any], None]] = []
        """Each is told of every optimizer: those alive when the lever is switched on, and those made later."""

    def set(self, owner: Any, name: str, value: Any) -> None:
        """`owner.name = value`, until undone; an attribute that only a base class had is removed again."""
        had = name in vars(owner)
        old = vars(owner).get(name)

        setattr(owner, name, value)
        there = vars(owner).get(name)

        def restore() -> None:
            if vars(owner).get(name) is not there:
                return
            if had:
                setattr(owner, name, old)
            else:
                delattr(owner, name)

        self._undo.append(restore)

    def on_undo(self, action: Callable[[], None]) -> None:
        """Run `action` when this patch is undone."""
        self._undo.append(action)

    def optimizer_made(self, optimizer: Any) -> None:
        """Tell the lever of an optimizer."""
        for told in self.on_optimizer:
            told(optimizer)

    def why_idle(self) -> str | None:
        """Why nothing of it is at work; None if something is, or that is not known."""
        reasons = [idle() for idle in self.idle]
        return None if None in reasons else next((reason for reason in reasons if reason), None)

    def undo(self) -> None:
        """Put everything back, last change first. Can be called again at no harm."""
        while self._undo:
            self._undo.pop()()


PASSES = (Phase.FORWARD, Phase.BACKWARD)
"""Of the model, one way and the other."""


@dataclass_transform(frozen_default=True)
class Lever(ABC):
    """A change that may make training faster. Each class of them is a frozen dataclass; its fields are settings.

    The parent process asks everything but `install`, and has no torch: only `install` may import it.
    """

    name: ClassVar[str]
    """`FusedOptimizer` -> "fused-optimizer"."""
    scope: ClassVar[Scope] = Scope.PROCESS
    numerics: ClassVar[Numerics]
    shortens: ClassVar[Sequence[Phase]] = ()
    """Phases of a step that together bound what it saves, unless `saves_at_most_s` knows better."""
    no_line: ClassVar[str] = "There is no script of the user's to change."
    """Why it is refused where its `edits` are none."""
    line: ClassVar[str] = ""
    """The statement that it puts behind the script's imports, unless its `edits` do something else."""
    imports: ClassVar[str] = "import torch"
    """What that needs."""
    by_environment: ClassVar[bool] = False
    """It is read before Python runs, so no line of source can set it: the user starts the script with `environment`."""
    across_ranks: ClassVar[bool] = False
    """It may be tried where several processes train together: in each of them it does the same, and no process must
    know what it does in another."""
    function: ClassVar[str] = ""
    """The function of hotlap's whose call its edit writes, which is asked whether it is at work (`hotlap.at_work`);
    empty where it writes none."""

    compiles: ClassVar[bool] = False
    """Its edit has torch.compile work unseen: it is at work, and settled, as `compiling.Compilation` finds."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __init_subclass__(cls) -> None:
        cls.name = vars(cls).get("name") or re.sub(r"(?<=.)(?=[A-Z])", "-", cls.__name__).lower()
        dataclass(frozen=True)(cls)

    @classmethod
    def candidates(cls, run: Run, machine: Machine) -> Sequence[Self]:
        """The settings worth a trial for this script, most promising first."""
        return (cls(),)

    def rejects(self, run: Run, machine: Machine) -> str | None:
        """Why it is not worth trying here, as one sentence; None if it is: what it `refuses`, then what it cannot
        write."""
        try:
            reason = self.refuses(run, machine)
            if reason is not None or self.by_environment:
                return reason
            edits = self.edits(run)
        except UserError as error:  # the source is not what it was, or a framework's argument is chosen
            return str(error)
        try:
            patch(edits, root=Path())
        except CannotEdit as error:
            return str(error)
        except UserError:  # there is no such file any more: whoever edits it says so
            pass
        return None if edits else self.no_line

    def refuses(self, run: Run, machine: Machine) -> str | None:
        """Why it is not worth trying here, where it could be written. Present state and hazards come first.

        Raises:
            UserError: a file is missing or changed since.
        """
        return None

    def saves_at_most_s(self, run: Run, ceilings: Sequence[Ceiling]) -> float:
        """Upper bound of the seconds saved per step. Orders the search; a bound of 0 means: do not try."""
        return sum(run.mean_phase_s(phase) or 0.0 for phase in self.shortens)

    def install(self, patch: Patch) -> None:  # noqa: B027 - process levers may need the environment alone
        """CHILD: change the running process, through `patch` only."""

    def environment(self, environ: Mapping[str, str]) -> Mapping[str, str]:
        """Variables that the process must be started with, given those it would have."""
        return {}

    def edits(self, run: Run) -> Sequence[Edit]:
        """The same change as source: its `line`, or the word of the framework that trains, which would set it again.
        Empty when it cannot be written (see `rejects`), and where it is `by_environment`."""
        return in_their_words(run, self.name) or behind_imports(run, self.line, imports=self.imports)

    def spec(self) -> LeverSpec:
        """This lever as data."""
        return {"name": self.name, **asdict(self)}

    def title(self) -> str:
        """For people: "threads count=1"."""
        return lever_title(self.spec())


def set_on_purpose(run: Run, *switches: str) -> str | None:
    """Why a switch stays as it is: the script sets it itself, and behind a line of ours; None where it does not.

    Raises:
        UserError: a file is missing or changed since.
    """
    for script in scripts(run):
        for number, line in enumerate(script.text.splitlines(), 1):
            code = line.partition("#")[0]
            switch = next((name for name in switches if name in code), None)
            if switch is not None:
                return f"The script sets {switch} on purpose, in line {number}."
    return None


def behind_imports(run: Run, code: str, *, imports: str) -> Sequence[Edit]:
    """`code`, if any, behind the imports of the main script, which is the first; nothing where that is not known."""
    main = [top_of(path, sha256) for path, sha256 in run.sources.items()][:1] if code else []
    return tuple(InsertAfterImports(site=site, code=code, imports=imports) for site in main)

"""allocator: another malloc, which gives memory back less eagerly."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Self, final, get_args

from hotlap.levers.lever import Lever, Numerics
from hotlap.record import Ceiling, Machine, Phase, Run
from hotlap.source import Edit

Library = Literal["libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libtcmalloc.so.4"]


@final
@dataclass(frozen=True, slots=True)
class Allocator(Lever):
    """Starts the process with jemalloc or tcmalloc in front of glibc's malloc, if one of them is installed.

    What: `LD_PRELOAD=libjemalloc.so.2` (or tcmalloc's). The variable is read before Python runs, so it is no part of
    the patch: the report says how to start the script.
    Why: glibc maps large blocks afresh and gives them back at once, so each step's activations are paid for with page
    faults; jemalloc and tcmalloc keep them, and lock less between threads (PyTorch's tuning guide; Intel's guide for
    PyTorch on CPUs).
    When it hurts: more memory is kept than is used. glibc's huge pages (lever huge-pages) do not reach another malloc,
    so the two are alternatives. A library that was built for another allocator can crash: then the trial fails and says
    so. The variable is inherited by every program that the script starts.
    """

    numerics: ClassVar[Numerics] = Numerics.EXACT
    across_ranks: ClassVar[bool] = True
    by_environment: ClassVar[bool] = True

    library: Library = "libjemalloc.so.2"

    @classmethod
    def candidates(cls, run: Run, machine: Machine) -> Sequence[Self]:
        """Those that are installed."""
        return tuple(cls(library=name) for name in get_args(Library) if name in machine.allocators)

    def refuses(self, run: Run, machine: Machine) -> str | None:
        """Is it there, and is none in place?"""
        if machine.system != "Linux":
            return f"Another malloc is put in front by the loader of Linux; this is {machine.system}."
        if self.library not in machine.allocators:
            return "Neither jemalloc nor tcmalloc is installed here."
        if run.switches is not None and "malloc" in run.switches.environment.get("LD_PRELOAD", ""):
            return "The script runs under another malloc already."
        return None

    def saves_at_most_s(self, run: Run, ceilings: Sequence[Ceiling]) -> float:
        """A third of the work on the CPU, as for huge pages: both save page faults."""
        if run.device != "cpu" or not run.step_s:
            return 0.0
        return max(0.0, run.median_step_s() - (run.mean_phase_s(Phase.SYNC) or 0.0)) / 3

    def environment(self, environ: Mapping[str, str]) -> Mapping[str, str]:
        """The library, behind those that are set."""
        present = environ.get("LD_PRELOAD", "")
        if self.library in present:
            return {}
        return {"LD_PRELOAD": ":".join(filter(None, (present, self.library)))}

    def edits(self, run: Run) -> Sequence[Edit]:
        """None: see `by_environment`."""
        return ()

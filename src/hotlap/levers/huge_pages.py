"""huge-pages: malloc asks the kernel for huge pages."""

from collections.abc import Mapping, Sequence

from hotlap.levers.lever import Lever, Numerics
from hotlap.record import Ceiling, Machine, Phase, Run

_TUNABLE = "glibc.malloc.hugetlb"


class HugePages(Lever):
    """Starts the process with `GLIBC_TUNABLES=glibc.malloc.hugetlb=1`: malloc marks its memory for huge pages.

    What: `madvise(MADV_HUGEPAGE)` on what malloc takes from the kernel (glibc 2.35 and newer). glibc reads the variable
    before Python runs, so it is no part of the patch: the report says how to start the script.
    Why: fewer page faults and TLB misses. Measured while hotlap was designed: on a busy shared machine a small MLP
    stepped 19-36% faster and far more evenly, a conv net 10-20% faster, large products no different; on the same
    machine an hour later nothing changed. So it is tried, never assumed.
    When it hurts: resident memory can grow (pages of 2 MiB where 4 KiB were enough), and under pressure the kernel may
    stall to make huge pages. Another malloc (jemalloc or tcmalloc by `LD_PRELOAD`), which saves page faults as well, is
    not reached by it, and not tried.
    """

    numerics = Numerics.EXACT
    across_ranks = True
    by_environment = True

    def refuses(self, run: Run, machine: Machine) -> str | None:
        """The system must have them, and leave the choice open."""
        if not machine.libc.startswith("glibc"):
            return f"Huge pages for malloc are a feature of glibc; this is {machine.libc or 'another libc'}."
        version = tuple(int(part) for part in machine.libc.removeprefix("glibc ").split(".")[:2])
        if version < (2, 35):
            return f"glibc 2.35 or newer is needed; this is {machine.libc}."
        if machine.huge_pages == "always":
            return "Transparent huge pages are on for every process already."
        if machine.huge_pages != "madvise":
            return "The kernel has transparent huge pages switched off."
        return None

    def saves_at_most_s(self, run: Run, ceilings: Sequence[Ceiling]) -> float:
        """A third of the work on the CPU: the most that was seen."""
        if run.device != "cpu":
            return 0.0
        waiting = run.mean_phase_s(Phase.SYNC) or 0.0
        return max(0.0, run.median_step_s() - waiting) / 3

    def environment(self, environ: Mapping[str, str]) -> Mapping[str, str]:
        """The tunable, behind those that are set."""
        present = environ.get("GLIBC_TUNABLES", "")
        if _TUNABLE in present:
            return {}
        return {"GLIBC_TUNABLES": ":".join(filter(None, (present, f"{_TUNABLE}=1")))}

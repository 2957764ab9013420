"""malloc: keeps the memory of tensors that are freed, in huge pages or not."""

from collections.abc import Mapping, Sequence
from typing import Self

from hotlap.levers.lever import Lever, Numerics
from hotlap.record import Ceiling, Machine, Run

_KEPT = ("glibc.malloc.trim_threshold=68719476736", "glibc.malloc.mmap_threshold=33554432")
_IN_HUGE_PAGES = "glibc.malloc.hugetlb=1"

# A page that is new is in no cache, and its address not in the TLB: with the faults went up to 1.5 times what the
# kernel takes for them (an embedding of 512 MB; others 0.8 to 1.2).
_MORE = 2.0


class Malloc(Lever):
    """Starts the process with `GLIBC_TUNABLES`: malloc keeps the memory of tensors that are freed.

    What: as it comes, glibc gives freed memory back to the kernel, large blocks at once, and takes it anew in the next
    step, page by page, each filled with zeros. `trim_threshold` has it keep all, and `mmap_threshold` makes blocks of
    up to 32 MiB (the most that glibc takes) a part of what it keeps. The other setting has the kernel use huge pages as
    well (`hugetlb`, glibc 2.35 and newer): 512 times fewer faults for larger blocks, and fewer TLB misses. glibc reads
    the variable before Python runs, so it is no part of the patch: the report says how to start the script.
    Why: a page fault takes 1 to 2 us. A step of a small conv net with 86,000 of them took 240 ms, and 120 ms with
    either setting; a large linear layer with tensors beyond 32 MiB 165 ms, and 101 ms in huge pages.
    When it hurts: what was used once stays with the process, so memory that it shares with others is short sooner. Huge
    pages take more of it, and half a second at the start. Another malloc (jemalloc or tcmalloc by `LD_PRELOAD`) keeps
    memory by itself, and is not reached by it.
    """

    numerics = Numerics.EXACT
    across_ranks = True
    by_environment = True

    huge_pages: bool = False

    @classmethod
    def candidates(cls, run: Run, machine: Machine) -> Sequence[Self]:
        """In huge pages as well where the system leaves that choice open."""
        is_open = _version(machine) >= (2, 35) and machine.huge_pages == "madvise"
        return (cls(), cls(huge_pages=True)) if is_open else (cls(),)

    def refuses(self, run: Run, machine: Machine) -> str | None:
        """It must be glibc's."""
        preloaded = "" if run.switches is None else run.switches.environment.get("LD_PRELOAD", "")
        if "malloc" in preloaded:
            return "Another malloc is loaded in place of glibc's (LD_PRELOAD)."
        if not machine.libc.startswith("glibc"):
            return f"It sets glibc's malloc; this is {machine.libc or 'another libc'}."
        return None if _version(machine) >= (2, 26) else f"glibc 2.26 or newer is needed; this is {machine.libc}."

    def saves_at_most_s(self, run: Run, ceilings: Sequence[Ceiling]) -> float:
        """What page faults take, and what comes with them."""
        share = min(1.0, _MORE * run.page_faults_share) if run.on_cpu else 0.0
        return share * run.median_step_s() if share else 0.0

    def environment(self, environ: Mapping[str, str]) -> Mapping[str, str]:
        """The tunables, behind those that are set; nothing where one of them is."""
        present = environ.get("GLIBC_TUNABLES", "")
        wanted = (*_KEPT, *((_IN_HUGE_PAGES,) if self.huge_pages else ()))
        if any(one.partition("=")[0] in present for one in wanted):
            return {}
        return {"GLIBC_TUNABLES": ":".join(filter(None, (present, *wanted)))}


def _version(machine: Machine) -> tuple[int, ...]:
    return tuple(int(part) for part in machine.libc.removeprefix("glibc ").split(".")[:2] if part.isdigit())

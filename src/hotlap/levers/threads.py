"""threads: how many threads one operator is spread over."""

from collections.abc import Sequence
from typing import Self

from hotlap.levers.lever import Lever, Numerics, Patch, Scope, behind_imports
from hotlap.record import Ceiling, CpuUse, Machine, Phase, Run
from hotlap.source import Edit


class Threads(Lever):
    """Sets torch's intra-op threads.

    What: `torch.set_num_threads(count)`.
    Why: a small operator loses more to waking threads than it gains from them; the default is one thread per core,
    which also overlooks a container's quota (pytorch/pytorch#22535, #82219, #24244).
    When it hurts: large products want every core, and the sum of a reduction depends on the number of threads, so the
    last bits of the losses change.
    """

    scope = Scope.STEP
    numerics = Numerics.ROUNDING
    across_ranks = True

    count: int = 1

    @classmethod
    def candidates(cls, run: Run, machine: Machine) -> Sequence[Self]:
        """One thread, a quarter, half, and all that this process may use, of several that train together each its part;
        without what is set now."""
        cores = max(1, int(machine.usable_cores / run.world_size))
        counts = dict.fromkeys((1, max(1, cores // 4), max(1, cores // 2), cores))
        return tuple(cls(count=count) for count in counts if count != run.num_threads)

    def refuses(self, run: Run, machine: Machine) -> str | None:
        """A choice of the script's own is respected, and so are other programs."""
        if run.device != "cpu":
            return "The model runs on a GPU; the threads of CPU operators do not decide its speed."
        if any(site.calls == "torch.set_num_threads" for site in run.call_sites):
            return "The script sets its number of threads on purpose."
        if run.num_threads is None or run.num_threads == self.count:
            return f"The script runs on {run.num_threads or 'an unknown number of'} threads already."
        if self.count > run.num_threads and _lacks_cores(run.cpu, self.count):
            return f"Other programs use the cores: each operator would wait until all of {self.count} threads had one."
        return None

    def saves_at_most_s(self, run: Run, ceilings: Sequence[Ceiling]) -> float:
        """Half of the arithmetic: what waking threads for nothing was seen to cost at most. All of it with fewer
        threads where others use the cores: one without keeps the others waiting (7.5x was seen beside one program)."""
        phases = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)
        all_s = sum(run.mean_phase_s(phase) or 0.0 for phase in phases)
        crowded = run.cpu is not None and (run.cpu.disturbed or bool(run.cpu.neighbours))
        fewer = run.num_threads is not None and self.count < run.num_threads
        return all_s if crowded and fewer else all_s / 2

    def install(self, patch: Patch) -> None:
        """From the next operator on."""
        import torch

        before = torch.get_num_threads()
        torch.set_num_threads(self.count)
        patch.on_undo(lambda: torch.set_num_threads(before))

    def edits(self, run: Run) -> Sequence[Edit]:
        """One line behind the imports."""
        return behind_imports(run, f"torch.set_num_threads({self.count})", imports="import torch")


def _lacks_cores(cpu: CpuUse | None, num_threads: int) -> bool:
    """Others leave fewer cores than so many threads need. (Of two cores one of which was taken, two threads took 99 to
    136 ms a step and one took 3 to 4 ms.)"""
    if cpu is None:
        return False
    theirs = sum(other.threads for other in cpu.neighbours)
    return cpu.disturbed or (theirs > 0 and num_threads + theirs > cpu.usable_cores)

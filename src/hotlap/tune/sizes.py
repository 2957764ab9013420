"""How long to measure: a first look at the script -> numbers of steps, blocks and processes."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hotlap.record import Machine, Run

# Time measured for each arm of each process. Longer does not help: the noise is between processes (DESIGN.md, 5).
_ARM_S = 1.5
_MIN_ROUNDS, _MAX_ROUNDS = 6, 40

# And made before: caches of processor and allocator fill in the first steps.
_WARM_S = 1.0
_MIN_WARM, _MAX_WARM = 3, 20

# What a run for the gate may take, an epoch's end not counted.
_EVIDENCE_S = 5.0
_MIN_EVIDENCE, _MAX_EVIDENCE = 60, 400
# Digests of what a step reads and changes: up to so many times a short step, and about so long for a longer one. (What
# they take here is known after the first such run: `Pace`.)
_DIGESTS, _DIGESTS_S = 2.0, 20e-3

# Part of the free memory that several processes together may take.
_MEMORY_SHARE = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Made from the first, timed run of the script as written."""

    step_s: float
    setup_s: float
    block: int
    steps: int
    """To be timed, for each arm."""
    warmup: int
    evidence_steps: int
    together: int
    """Processes that may be alive at once."""
    cores: float

    @classmethod
    def of(cls, run: Run, machine: Machine) -> "Sizes":
        """From the script as written on this machine."""
        step_s = sum(run.step_s) / len(run.step_s)
        # Short blocks for long steps: rounds must stay affordable.
        block = 11 if step_s < 0.05 else 5 if step_s < 0.1 else 3
        rounds = min(_MAX_ROUNDS, max(_MIN_ROUNDS, round(_ARM_S / (block * step_s))))
        evidence = min(_MAX_EVIDENCE, max(_MIN_EVIDENCE, round(_EVIDENCE_S / step_s)))
        # A quarter on top: levers keep batches, caches, copies.
        each = 1.25 * (run.rss_peak_bytes or 0)
        together = 8 if each == 0 else max(1, int(_MEMORY_SHARE * machine.available_bytes / each))
        return cls(
            step_s=step_s,
            setup_s=run.setup_s or 5.0,
            block=block,
            steps=rounds * block,
            warmup=min(_MAX_WARM, max(_MIN_WARM, round(_WARM_S / step_s))),
            evidence_steps=evidence,
            together=min(together, 8) if run.device == "cpu" else 1,
            cores=machine.usable_cores,
        )

    def after(self, starts_s: Sequence[float]) -> "Sizes":
        """With starts of later processes: the first one of all may have read torch from the disk, or compiled it."""
        return replace(self, setup_s=min(self.setup_s, statistics.median(starts_s)))

    def expected_s(self, processes: int, arms: int = 1) -> float:
        """What one heat of so many processes takes on a quiet machine, each with so many arms."""
        starts = self.setup_s * max(1.0, processes / min(max(1.0, self.cores), max(1, self.together)))
        return starts + processes * (self.steps * arms + self.warmup) * self.step_s + 1.0

    def evidence_s(self, num_steps: int | None = None) -> float:
        """What one run for the gate takes on a quiet machine, of so many steps or of `evidence_steps`."""
        each_s = self.step_s + min(_DIGESTS * self.step_s, _DIGESTS_S)
        return self.setup_s + (num_steps or self.evidence_steps) * each_s + 1.0


class Pace:
    """How much longer things take here and now than expected; learnt from each heat."""

    def __init__(self) -> None:
        self.factor = 1.0

    def note(self, *, expected_s: float, took_s: float) -> None:
        """A heat is over. The newest counts half: other people's work on a machine comes and goes."""
        if expected_s > 0:
            self.factor = min(20.0, max(0.5, (self.factor + took_s / expected_s) / 2))

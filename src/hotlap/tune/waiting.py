"""What gained and waits for its gate: the ten runs that other numbers take come when the other trials are done."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hotlap.levers import Scope
from hotlap.record import Trial
from hotlap.tune.candidates import Candidate, Promise, key
from hotlap.tune.comparison import Contender
from hotlap.tune.evidence import Stack


@dataclass(frozen=True, slots=True, kw_only=True)
class _PutOff:
    on_top_of: Stack
    contender: Contender


class Waiting:
    """Levers by what they gained. Known to the running study only: one that was interrupted times them again."""

    def __init__(self) -> None:
        self._put_off: dict[object, _PutOff] = {}

    def __contains__(self, candidate: Candidate) -> bool:
        return _key(candidate) in self._put_off

    def put_off(self, candidate: Candidate, stack: Stack, contender: Contender) -> None:
        """It gained on top of `stack`."""
        self._put_off[_key(candidate)] = _PutOff(on_top_of=stack, contender=contender)

    def timed(self, candidate: Candidate, stack: Stack) -> Contender | None:
        """How it did on top of `stack`; None where that is not known, or was on top of others."""
        found = self._put_off.get(_key(candidate))
        return found.contender if found is not None and found.on_top_of == stack else None

    def speed(self, candidate: Candidate) -> float:
        """What it gained, as a factor."""
        return math.exp(self._put_off[_key(candidate)].contender.mean)

    def trial(self, one: Promise, *, why: str, pooled: Callable[[str], tuple[float, int] | None]) -> Trial:
        """For a study that ends before its gate. `pooled`: scope -> variance that all comparisons share."""
        found = self._put_off[_key(one.candidate)]
        scope = "step" if one.scope is Scope.STEP else "process"
        return Trial(
            levers=tuple(lever.spec() for lever in one.candidate),
            on_top_of=found.on_top_of,
            scope=scope,
            speedup=found.contender.speedup(pooled(scope)),
            why=why,
            log_ratios=tuple(found.contender.log_ratios),
        )

    def promises(self, open_: Sequence[Promise], step_s: float) -> list[Promise]:
        """Of what is open those that wait, by what they gained of a step of `step_s`; the most first."""
        found = [
            Promise(candidate=one.candidate, bound_s=step_s * (1 - 1 / self.speed(one.candidate)))
            for one in open_
            if one.candidate in self
        ]
        return sorted(found, key=lambda one: -one.bound_s)


def _key(candidate: Candidate) -> object:
    return key(tuple(lever.spec() for lever in candidate))

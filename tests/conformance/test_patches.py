"""Patched scripts are run: alone, in pairs, in larger sets, in whatever order the levers were accepted.

Every lever is asked for its edits on what the probe would record of the scripts in `scripts/`; what is written is run
from its first line to its last, and its losses are compared with those of the baseline, by the weakest promise
among the levers. Levers that `tune` never accepts together are left out by the function that `tune` itself asks.
"""

import math
import random
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from pathlib import Path

import pytest

from hotlap import levers
from hotlap.levers import Lever, Numerics
from hotlap.record import LeverSpec, Run, State, Study
from hotlap.search.alternatives import alternative
from hotlap.search.gate_runs import numerics_of
from hotlap.source import Patched, patch
from hotlap.source.disk import PatchFiles
from tests.conformance.patched_runs import Outcome, run_all
from tests.conformance.recorded import OWN, SCRIPTS, machines, run_of

ALL_SCRIPTS = (*SCRIPTS, *OWN.values())
GPU = "NVIDIA H200"

WRITTEN = tuple(kind for kind in levers.ALL if not kind.by_environment)

# How far a loss may be from that of the baseline, as a part of it.
CLOSE = {Numerics.ROUNDING: 1e-4, Numerics.STATISTICAL: 0.1}


@dataclass(frozen=True, slots=True)
class Case:
    """A script, and the levers that were accepted for it, in that order."""

    script: Path
    stack: tuple[str, ...]
    device: str = "cpu"

    @property
    def title(self) -> str:
        return f"{self.script.stem} under {', '.join(self.stack) or 'nothing'} ({self.device})"

    @property
    def specs(self) -> tuple[LeverSpec, ...]:
        return tuple(able(self.script, self.device)[name].spec() for name in self.stack)


@cache
def recorded(script: Path, device: str = "cpu") -> Run:
    return replace(run_of(script), device=device)


@cache
def able(script: Path, device: str = "cpu") -> dict[str, Lever]:
    """The levers that change this script, each with the setting that it would first be tried with."""
    run = recorded(script, device)
    first = {kind.name: next(iter(kind.candidates(run, machines()["linux"])), None) for kind in WRITTEN}
    return {name: lever for name, lever in first.items() if lever is not None and lever.edits(run)}


@cache
def patched(case: Case) -> Patched:
    return patch(levers.edits_of(case.specs, recorded(case.script, case.device)), root=case.script.parent)


def text_of(case: Case) -> str:
    return patched(case).texts.get(str(case.script)) or case.script.read_text()


def may_be_accepted(stack: Sequence[str]) -> bool:
    return all(alternative(name, stack[:k]) is None for k, name in enumerate(stack))


def scripts_for(stack: Sequence[str]) -> list[Path]:
    """The scripts that one of these levers is for, or else those that are for none."""
    return [OWN[name] for name in stack if name in OWN] or SCRIPTS


def singles(device: str = "cpu") -> list[Case]:
    return [
        Case(script, (name,), device)
        for script in ALL_SCRIPTS
        for name in able(script, device)
        if script in scripts_for([name])
    ]


def pairs(script: Path) -> list[Case]:
    """The pairs of levers that change this script, each in one order."""
    return [Case(script, pair) for pair in combinations(able(script), 2) if may_be_accepted(pair)]


def each_pair_once() -> list[Case]:
    """Each pair of levers on one script that both change."""
    found: dict[tuple[str, ...], list[Case]] = {}
    for script in ALL_SCRIPTS:
        for case in pairs(script):
            found.setdefault(case.stack, []).append(case)
    for stack, cases in found.items():
        found[stack] = [case for case in cases if case.script in scripts_for(stack)] or cases
    return [cases[zlib.crc32(repr(stack).encode()) % len(cases)] for stack, cases in found.items()]


def larger_sets() -> Iterator[Case]:
    """For each script three levers, and as many as can be accepted together, in any order."""
    for script in ALL_SCRIPTS:
        draw = random.Random(script.stem)
        for most in (3, math.inf):
            stack: list[str] = []
            for name in draw.sample(sorted(able(script)), len(able(script))):
                if len(stack) < most and alternative(name, stack) is None:
                    stack.append(name)
            yield Case(script, tuple(stack))


def faults(cases: Sequence[Case], folder: Path) -> list[str]:
    """Run what is written for them, equal texts once; each case that does not train as the script does."""
    plain = {script: Case(script, ()) for script in ALL_SCRIPTS}
    numbers: dict[tuple[str, str], str] = {}
    for case in (*plain.values(), *cases):
        numbers.setdefault((case.script.stem, text_of(case)), f"{case.script.stem}_{len(numbers)}")
    outcomes = run_all({name: text for (_, text), name in numbers.items()}, folder)

    def outcome(case: Case) -> Outcome:
        return outcomes[numbers[case.script.stem, text_of(case)]]

    ends = {script.stem: outcome(case) for script, case in plain.items()}
    assert not {name: end for name, end in ends.items() if end.error is not None or len(end.losses) < 3}
    return [
        f"{case.title}: {fault}"
        for case in cases
        if (fault := _fault(case, outcome(case), outcome(plain[case.script]))) is not None
    ]


def _fault(case: Case, found: Outcome, plain: Outcome) -> str | None:
    if found.error is not None:
        return found.error
    # Beyond float16's range a training has diverged as it is written, and says nothing any more.
    known = next((k for k, loss in enumerate(plain.losses) if abs(loss) > 65504), len(plain.losses))
    if len(found.losses) != len(plain.losses) or not all(map(math.isfinite, found.losses[:known])):
        return f"losses {found.losses}, in the baseline {plain.losses}"
    if "compile" in case.stack and not found.compiled:
        return "no model was compiled"
    numerics = numerics_of(case.specs)
    if "workers" in case.stack and able(case.script, case.device)["workers"].numerics is Numerics.STATISTICAL:
        return None  # other samples, by its contract
    if numerics is Numerics.EXACT:
        same = (found.losses, found.random_state) == (plain.losses, plain.random_state)
        return None if same else f"not bit-equal: {found.losses}, in the baseline {plain.losses}"
    apart = max(abs(found.losses[k] - plain.losses[k]) / max(abs(plain.losses[k]), 1e-2) for k in range(known))
    return None if apart <= CLOSE[numerics] else f"losses are {apart:.2g} apart"


def shown(found: Sequence[str]) -> str:
    return f"{len(found)} faults, the first of them:\n" + "\n".join(found[:10])


def test_every_lever_that_writes_changes_a_script() -> None:
    working = {name for case in singles() if text_of(case) != case.script.read_text() for name in case.stack}
    assert working == {kind.name for kind in WRITTEN}


def test_levers_that_exclude_each_other_are_these() -> None:
    found = {pair for pair in combinations([kind.name for kind in levers.ALL], 2) if not may_be_accepted(pair)}
    assert found == {
        ("batched-fetch", "cached-dataset"),
        ("batched-fetch", "cached-prefix"),
        ("batched-fetch", "device-resident"),
        ("cached-dataset", "cached-prefix"),
        ("cached-prefix", "device-resident"),
    }


@pytest.mark.processes
def test_patches_of_levers_alone_in_pairs_and_in_larger_sets_train_as_the_script(tmp_path: Path) -> None:
    # What is written for a GPU is conditional, or means nothing without one: it is run here all the same. (That graphs
    # of CUDA are recorded cannot be seen.)
    cases = [*singles(), *singles(GPU), *each_pair_once(), *larger_sets()]
    together = {case.stack for case in cases if len(case.stack) == 2}
    assert len(together) > len(list(combinations(WRITTEN, 2))) / 2, "most pairs find a script that both change"
    found = faults(cases, tmp_path)
    assert not found, shown(found)


@pytest.mark.slow
@pytest.mark.parametrize("script", ALL_SCRIPTS, ids=lambda script: script.stem)
def test_the_patch_of_every_pair_trains_as_the_script(script: Path, tmp_path: Path) -> None:
    found = faults(pairs(script), tmp_path)
    assert not found, shown(found)


def test_a_patch_is_the_same_in_whatever_order_its_levers_were_accepted() -> None:
    for case in (*each_pair_once(), *larger_sets()):
        there = levers.edits_of(case.specs, recorded(case.script))
        assert there == levers.edits_of(case.specs[::-1], recorded(case.script)), case.title


def test_every_patch_can_be_applied_and_taken_back(tmp_path: Path) -> None:
    for number, case in enumerate((*each_pair_once(), *larger_sets())):
        root = tmp_path / str(number)
        root.mkdir()
        copy = root / case.script.name
        copy.write_bytes(case.script.read_bytes())
        made = patched(case)
        changes = tuple(replace(change, path=str(copy)) for change in made.changes)
        study = Study(
            command=("python", copy.name), cwd=str(root), created="", key="", state=State.COMPLETE, patch=made.diff,
            changes=changes,
        )  # fmt: skip
        files = PatchFiles(study=study, home=root / ".hotlap", roots=[root])
        assert files.apply() == [copy]
        assert copy.read_text() == text_of(case), case.title
        files.revert()
        assert copy.read_bytes() == case.script.read_bytes(), case.title

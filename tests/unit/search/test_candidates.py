"""What is tried next: by bounds, beside one another, and in the pairs that are known to interact."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, final

import pytest

from hotlap import levers
from hotlap.levers import Lever, Numerics, Scope
from hotlap.record import Ceiling, Failure, Interval, LeverSpec, Machine, Plan, Run, Trial, Verdict
from hotlap.search import Candidate, Candidates, StudyLog
from hotlap.search.candidates import ALTERNATIVES, PAIRS, alternative
from hotlap.source import Edit
from tests.unit.tune.world import MACHINE, Silent, World, new_study, options_for


def lever(name_: str, *, saves: float, scope_: Scope = Scope.STEP, refuses: str | None = None) -> type[Lever]:
    """A lever that could save a part of the step."""

    @final
    @dataclass(frozen=True, slots=True)
    class Made(Lever):
        """One of these tests."""

        name: ClassVar[str] = name_
        scope: ClassVar[Scope] = scope_
        numerics: ClassVar[Numerics] = Numerics.EXACT

        def rejects(self, run: Run, machine: Machine) -> str | None:
            return refuses

        def saves_at_most_s(self, run: Run, ceilings: Sequence[Ceiling]) -> float:
            return saves * run.median_step_s()

        def edits(self, run: Run) -> Sequence[Edit]:
            return ()

    return Made


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> list[type[Lever]]:
    """The levers that there are."""
    found: list[type[Lever]] = []
    monkeypatch.setattr(levers, "ALL", found)
    return found


def candidates(*trials: Trial, together: int = 8, wanted: tuple[str, ...] | None = None) -> Candidates:
    world = World(path="/home/ada/train.py", sha256="0" * 64)
    options = replace(options_for(world.path), levers=wanted)
    run = world.run(_plan(options.command))
    study = replace(new_study(options), baseline=(run,), trials=trials)
    return Candidates(StudyLog(study, options, Silent(), now=world.now), MACHINE, together=together)


def _plan(command: tuple[str, ...]) -> Plan:
    return Plan(command=command, cwd=str(Path.cwd()), out="")


def trial(*names: str, on_top_of: tuple[str, ...] = (), speedup: float = 1.0, **fields: object) -> Trial:
    return replace(
        Trial(
            levers=tuple(spec(name) for name in names),
            on_top_of=tuple(spec(name) for name in on_top_of),
            speedup=Interval(low=speedup, mid=speedup, high=speedup),
        ),
        **fields,  # type: ignore[arg-type]
    )


def spec(name: str) -> LeverSpec:
    return {"name": name}


def names(found: Sequence[Candidate]) -> list[list[str]]:
    return [[lever.name for lever in one.levers] for one in found]


def groups(found: Candidates) -> list[list[list[str]]]:
    return [names(group) for group in found.groups(found.open())]


def test_the_highest_bound_comes_first_with_those_of_its_kind(known: list[type[Lever]]) -> None:
    known += [lever("a", saves=0.1), lever("b", saves=0.3), lever("c", saves=0.2, scope_=Scope.PROCESS)]
    assert names(candidates().open()) == [["b"], ["c"], ["a"]]
    assert groups(candidates()) == [[["b"], ["a"]], [["c"]]]


def test_what_cannot_reach_the_line_is_not_tried(known: list[type[Lever]]) -> None:
    known += [lever("a", saves=0.01), lever("b", saves=0.0)]
    assert candidates().open() == []
    assert candidates().groups([]) == []


def test_a_lever_that_refuses_the_script_is_not_tried_and_says_why(known: list[type[Lever]]) -> None:
    known += [lever("a", saves=0.3, refuses="It is on already."), lever("b", saves=0.2)]
    assert names(candidates().open()) == [["b"]]
    assert [(one.levers, one.why) for one in candidates().rejected()] == [
        ((spec("a"),), "Not tried. It is on already.")
    ]


def test_only_levers_that_were_asked_for_are_tried_or_refused(known: list[type[Lever]]) -> None:
    known += [lever("a", saves=0.3), lever("b", saves=0.2), lever("c", saves=0.0), lever("d", saves=0.0)]
    found = candidates(wanted=("b", "d"))
    assert names(found.open()) == [["b"]]
    assert [one.levers for one in found.rejected()] == [(spec("d"),)]


def test_what_the_study_goes_on_without_is_accepted_no_more(known: list[type[Lever]]) -> None:
    known += [lever("a", saves=0.3), lever("b", saves=0.2)]
    both = [trial("a", accepted=True), trial("b", on_top_of=("a",), accepted=True)]
    assert candidates(*both, trial("a", kind="leave-one-out", accepted=True)).stack == (spec("a"), spec("b"))
    assert candidates(*both, trial("a", kind="leave-one-out", accepted=False)).stack == (spec("b"),)


def test_processes_share_a_base_where_their_bounds_are_alike_and_memory_holds_them(known: list[type[Lever]]) -> None:
    known += [
        lever("a", saves=0.6, scope_=Scope.PROCESS),
        lever("b", saves=0.5, scope_=Scope.LOADER),
        lever("c", saves=0.1, scope_=Scope.PROCESS),
    ]
    assert groups(candidates()) == [[["a"], ["b"]]]
    assert groups(candidates(together=2)) == [[["a"]]]
    assert groups(candidates(together=1)) == [[["a"]]]


def test_a_setting_stands_back_where_another_one_made_the_step_slower(known: list[type[Lever]]) -> None:
    known += [lever("a", saves=0.4), lever("b", saves=0.3)]
    other_setting = replace(trial("a", speedup=0.5), levers=({"name": "a", "count": 1},))
    assert names(candidates().open()) == [["a"], ["b"]]
    assert names(candidates(other_setting).open()) == [["b"], ["a"]]


def test_pairs_are_of_levers_that_there_are() -> None:
    assert {name for pair in PAIRS for name in pair} <= {kind.name for kind in levers.ALL}


@pytest.mark.parametrize("pair", PAIRS)
def test_a_known_pair_is_tried_together_after_each_failed_alone(
    known: list[type[Lever]], pair: tuple[str, str]
) -> None:
    known += [lever(name, saves=0.3) for name in pair]
    alone = [trial(name) for name in pair]
    assert names(candidates(*alone).open()) == [list(pair)]
    assert candidates(*alone, trial(*pair)).open() == []


def test_the_half_of_a_pair_is_tried_again_on_top_of_the_other(known: list[type[Lever]]) -> None:
    one, other = PAIRS[0]
    known += [lever(one, saves=0.3), lever(other, saves=0.3)]
    before = [trial(other), trial(one, accepted=True, speedup=1.2)]
    assert names(candidates(*before).open()) == [[other]]
    assert candidates(*before, trial(other, on_top_of=(one,))).open() == []


def test_accepted_together_is_together_enough(known: list[type[Lever]]) -> None:
    one, other = PAIRS[0]
    known += [lever(one, saves=0.3), lever(other, saves=0.3)]
    assert candidates(trial(one, accepted=True), trial(other, on_top_of=(one,), accepted=True)).open() == []


def test_what_fell_alone_is_in_no_pair(known: list[type[Lever]]) -> None:
    one, other = PAIRS[0]
    known += [lever(one, saves=0.3), lever(other, saves=0.3)]
    assert candidates(trial(one, failure=Failure.CRASHED), trial(other)).open() == []
    assert candidates(trial(one, verdict=Verdict.HARMED), trial(other)).open() == []
    assert candidates(trial(one, speedup=0.3), trial(other)).open() == []


def test_levers_that_nobody_knows_to_interact_are_no_pair(known: list[type[Lever]]) -> None:
    known += [lever("a", saves=0.3), lever("b", saves=0.3)]
    assert candidates(trial("a"), trial("b")).open() == []


def test_alternatives_are_levers_that_there_are_and_no_known_pair() -> None:
    assert {name for group in ALTERNATIVES for name in group} <= {kind.name for kind in levers.ALL}
    assert not any(alternative(one, [other]) for one, other in PAIRS)


@pytest.mark.parametrize("taken", [0, 1])
def test_of_alternatives_the_second_is_not_tried_and_its_reason_is_told(known: list[type[Lever]], taken: int) -> None:
    known += [lever(name, saves=0.3) for name in ALTERNATIVES[0]]
    accepted = ALTERNATIVES[0][taken]
    found = candidates(trial(accepted, accepted=True, speedup=1.2))
    assert names(found.open()) == []
    assert {one.why for one in found.rejected()} == {
        f"Not tried. It is an alternative to {accepted}, which was accepted."
    }
    assert len(list(found.rejected())) == len(ALTERNATIVES[0]) - 1


def bundled(*trials: Trial) -> list[str] | None:
    bundle = candidates(*trials).bundle()
    return None if bundle is None else [lever.name for lever in bundle.levers]


def test_what_could_not_be_shown_alone_is_tried_together(known: list[type[Lever]]) -> None:
    known += [lever("one", saves=0.2), lever("two", saves=0.2), lever("slow", saves=0.2), lever("failed", saves=0.2)]
    alone = [trial("one", speedup=1.05), trial("two", speedup=1.08), trial("slow", speedup=0.97)]
    alone.append(trial("failed", speedup=1.1, failure=Failure.CRASHED))
    assert bundled(*alone) == ["one", "two"]
    bundle = candidates(*alone).bundle()
    assert bundle is not None
    step_s = candidates(*alone).profile().median_step_s()
    assert bundle.bound_s == pytest.approx(step_s * (1 - 1 / (1.05 * 1.08)))


def test_of_alternatives_the_better_one_is_in_a_bundle(known: list[type[Lever]]) -> None:
    one, other = ALTERNATIVES[0][:2]
    known += [lever(name, saves=0.2) for name in (one, other, "third")]
    alone = [trial(one, speedup=1.05), trial(other, speedup=1.08), trial("third", speedup=1.04)]
    assert bundled(*alone) == [other, "third"]


def test_one_alone_is_tried_once_more_and_what_was_accepted_or_tried_together_is_not(
    known: list[type[Lever]],
) -> None:
    known += [lever("one", saves=0.2), lever("two", saves=0.2)]
    one, two = trial("one", speedup=1.05), trial("two", speedup=1.08)
    assert bundled(one) == ["one"]
    assert bundled(one, one) is None
    assert bundled(one, replace(two, accepted=True)) == ["one"]
    assert bundled(one, two, trial("one", "two", speedup=1.1)) is None


def test_what_the_gate_refused_alone_is_in_no_bundle(known: list[type[Lever]]) -> None:
    known += [lever(name, saves=0.2) for name in ("one", "two", "refused", "harmful", "late")]
    alone = [trial("one", speedup=1.05), trial("two", speedup=1.08)]
    run = candidates().profile()
    alone.append(trial("refused", speedup=1.2, runs=(run,)))
    alone.append(trial("harmful", speedup=1.2, verdict=Verdict.HARMED))
    alone.append(trial("late", speedup=1.2, one_time_s=100.0))
    assert bundled(*alone) == ["one", "two"]


def test_a_bundle_that_the_gate_refused_is_tried_without_what_rounds_otherwise(known: list[type[Lever]]) -> None:
    known += [lever("one", saves=0.2), lever("two", saves=0.2), lever("rounds", saves=0.2)]
    known[-1].numerics = Numerics.ROUNDING
    known.append(lever("drifts", saves=0.2))
    known[-1].numerics = Numerics.STATISTICAL
    alone = [trial(name, speedup=1.05) for name in ("one", "two", "rounds", "drifts")]
    assert bundled(*alone) == ["one", "two", "rounds"]
    together = trial("one", "two", "rounds", speedup=1.2)
    assert bundled(*alone, together) is None
    assert bundled(*alone, replace(together, runs=(candidates().profile(),))) == ["one", "two"]


def test_other_numbers_that_seemed_to_gain_much_are_tried_again_once_the_others_were(known: list[type[Lever]]) -> None:
    known += [lever("one", saves=0.2), lever("two", saves=0.2), lever("drifts", saves=0.2), lever("little", saves=0.2)]
    known[-2].numerics = known[-1].numerics = Numerics.STATISTICAL
    alone = [trial("one", speedup=1.05), trial("drifts", speedup=1.2), trial("little", speedup=1.05)]
    assert bundled(*alone) == ["one"]
    assert bundled(*alone, alone[0]) == ["drifts"]
    assert bundled(*alone, alone[0], alone[1]) is None
    assert bundled(alone[1]) == ["drifts"]


def test_of_two_that_save_the_same_time_the_better_one_is_in_a_bundle(known: list[type[Lever]]) -> None:
    known += [lever(name, saves=0.2) for name in ("one", "two", "native-step", "fused-optimizer", "compile")]
    alone = [trial("one", speedup=1.05), trial("native-step", speedup=1.1), trial("fused-optimizer", speedup=1.08)]
    assert bundled(*alone) == ["one", "native-step"]
    alone += [trial("compile", speedup=1.12)]
    assert bundled(*alone) == ["one", "fused-optimizer", "compile"]
    accepted = [replace(alone[0], levers=(spec("two"),)), alone[0], alone[1], replace(alone[2], accepted=True)]
    assert bundled(*accepted) == ["one", "two"]


def test_who_was_accepted_in_a_bundle_is_known(known: list[type[Lever]]) -> None:
    known += [lever(name, saves=0.2) for name in ("one", "two", "workers", "threads")]
    found = candidates(trial("one", "two", accepted=True), trial("workers", "threads", accepted=True))
    assert found.is_bundled(spec("one"))
    assert not found.is_bundled(spec("threads"))

"""What is tried next, by bounds and beside one another; what its trials left open; and what excludes what."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import get_args, get_type_hints

import pytest

from hotlap import levers
from hotlap.levers import Lever, Numerics, Scope
from hotlap.levers.data_wrappers import CachedDataset
from hotlap.levers.fused_optimizer import FusedOptimizer
from hotlap.levers.native import NativeStep
from hotlap.record import (
    Ceiling,
    Failure,
    InputPart,
    Interval,
    LeverSpec,
    Machine,
    OperatorWindow,
    Plan,
    Run,
    Trial,
    Verdict,
)
from hotlap.search import StudyLog
from hotlap.search.alternatives import ALTERNATIVES
from hotlap.search.candidates import Candidate, Candidates, compatible, excludes, grouped, stacked
from hotlap.source import Edit
from tests.unit.tune.world import LOADER, MACHINE, Silent, World, new_study, options_for


def lever(name_: str, *, saves: float, scope_: Scope = Scope.STEP, refuses: str | None = None) -> type[Lever]:
    """A lever that could save a part of the step."""

    class Made(Lever):
        """One of these tests."""

        name = name_
        scope = scope_
        numerics = Numerics.EXACT

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
    monkeypatch.setattr(levers, "_kinds", lambda: found)
    return found


def candidates(
    *trials: Trial,
    wanted: tuple[str, ...] | None = None,
    trial_s: Callable[[Candidate], float] = lambda one: 1.0,
    **fields: object,
) -> Candidates:
    world = World(path="/home/ada/train.py", sha256="0" * 64)
    options = replace(options_for(world.path), levers=wanted)
    run = world.run(_plan(options.command))
    fields = {"baseline": (run,), "trials": trials, **fields}
    study = replace(new_study(options), **fields)  # type: ignore[arg-type]
    return Candidates(StudyLog(study, options, MACHINE, world, Silent(), now=world.now), trial_s)


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


def groups(found: Candidates, *, together: int = 8) -> list[list[list[str]]]:
    return [names(group) for group in grouped(found.open(), together=together, nodes=1)]


def test_the_highest_bound_comes_first_with_those_of_its_kind(known: list[type[Lever]]) -> None:
    known += [lever("a", saves=0.1), lever("b", saves=0.3), lever("c", saves=0.2, scope_=Scope.PROCESS)]
    known.append(lever("d", saves=0.2))
    assert names(candidates().open()) == [["b"], ["c"], ["d"], ["a"]]
    assert groups(candidates()) == [[["b"], ["d"]], [["c"]]]
    assert groups(candidates(trial("b"), trial("c"), trial("d"))) == [[["a"]]], "it may save more once those are in"


def test_the_group_of_the_best_bound_is_timed_first_however_its_levers_are_compared(known: list[type[Lever]]) -> None:
    known += [lever("a", saves=0.4), lever("b", saves=0.6, scope_=Scope.PROCESS), lever("c", saves=0.3)]
    assert groups(candidates()) == [[["b"]], [["a"], ["c"]]]


def test_what_may_save_most_for_the_time_of_its_trial_comes_first(known: list[type[Lever]]) -> None:
    known += [lever("costly", saves=0.5, scope_=Scope.PROCESS), lever("cheap", saves=0.2), lever("less", saves=0.08)]
    found = candidates(trial_s=lambda one: 60.0 if one.names == ["costly"] else 10.0)
    assert names(found.open()) == [["cheap"], ["costly"], ["less"]]
    assert groups(found) == [[["cheap"]]], "the costly one is worth less than half of that"


def test_what_cannot_reach_the_line_is_not_tried(known: list[type[Lever]]) -> None:
    known += [lever("a", saves=0.01), lever("b", saves=0.0)]
    assert candidates().open() == []
    assert groups(candidates()) == []


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
    assert groups(candidates(), together=2) == [[["a"]]]
    assert groups(candidates(), together=1) == [[["a"]]]


def test_another_setting_of_what_is_accepted_is_not_offered_nor_is_it_stacked(known: list[type[Lever]]) -> None:
    known += [lever("a", saves=0.4), lever("b", saves=0.3)]
    other_setting = replace(trial("a", speedup=1.5), levers=({"name": "a", "count": 1},))
    assert names(candidates(other_setting).open()) == [["a"], ["b"]]
    assert names(candidates(replace(other_setting, accepted=True)).open()) == [["b"]]


def test_what_showed_no_gain_is_tried_again_once_the_step_is_much_shorter(known: list[type[Lever]]) -> None:
    known += [lever("a", saves=0.4), lever("b", saves=0.3, scope_=Scope.LOADER), lever("c", saves=0.3)]
    in_vain = trial("b", speedup=1.01)
    other = trial("c")
    assert names(candidates(in_vain, other, trial("a", speedup=1.2, accepted=True)).open()) == []
    shorter = trial("a", speedup=2.0, accepted=True)
    assert names(candidates(in_vain, other, shorter).open()) == [["b"]], "c is no lever of the loaders"
    assert names(candidates(in_vain, other, shorter, trial("b", on_top_of=("a",))).open()) == []
    assert names(candidates(trial("b", failure=Failure.CRASHED), other, shorter).open()) == []


def test_what_seemed_to_gain_in_a_long_step_is_tried_again_in_one_that_is_much_shorter(
    known: list[type[Lever]],
) -> None:
    known += [lever("a", saves=0.4), lever("b", saves=0.3)]
    seemed, shorter = trial("b", speedup=1.1), trial("a", speedup=2.0, accepted=True)
    assert names(candidates(seemed, trial("a", speedup=1.2, accepted=True)).open()) == []
    assert names(candidates(seemed, shorter).open()) == [["b"]]
    assert names(candidates(trial("b", speedup=1.01), shorter).open()) == []
    assert names(candidates(seemed, shorter, trial("b", on_top_of=("a",), speedup=1.1)).open()) == []


def test_alternatives_are_levers_that_there_are() -> None:
    settings = {NativeStep(parts).title() for parts in get_args(get_type_hints(NativeStep)["parts"])}
    assert {one for group in ALTERNATIVES for one in group} <= {kind.name for kind in levers.ALL} | settings


@pytest.mark.parametrize(
    ("first", "second"), [(NativeStep(), FusedOptimizer()), (FusedOptimizer(), NativeStep("optimizer"))]
)
def test_what_updates_the_parameters_is_taken_once(first: Lever, second: Lever) -> None:
    faster, fast = (Candidate(levers=(one,), log_gain=gain) for one, gain in ((first, 0.5), (second, 0.4)))
    assert compatible([fast, faster]) == [faster]
    assert excludes(fast, faster.titles) == first.title()


def test_a_model_that_runs_natively_may_have_a_fused_optimizer() -> None:
    both = [Candidate(levers=(one,), log_gain=0.1) for one in (NativeStep("model"), FusedOptimizer())]
    assert compatible(both) == both


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


@pytest.mark.parametrize("own", [False, True], ids=["collated by torch", "by the script"])
def test_workers_are_not_tried_where_the_training_process_gathers_what_is_kept(
    known: list[type[Lever]], own: bool
) -> None:
    known += [lever(name, saves=0.3) for name in ("cached-dataset", "workers")]
    world = World(path="/home/ada/train.py", sha256="0" * 64)
    run = replace(world.run(_plan(("train.py",))), loaders=(replace(LOADER, default_collate=not own),))
    found = candidates(trial("cached-dataset", accepted=True, speedup=1.2), baseline=(run,))
    assert names(found.open()) == ([["workers"]] if own else [])
    first = candidates(trial("workers", accepted=True, speedup=1.2), baseline=(run,))
    assert names(first.open()) == [["cached-dataset"]]


def unshown(*trials: Trial) -> list[list[str]]:
    return names(compatible(candidates(*trials).unshown()))


def test_what_seemed_to_gain_is_left_to_be_shown_with_others(known: list[type[Lever]]) -> None:
    known += [lever(name, saves=0.2) for name in ("one", "two", "slow", "failed", "refused", "late")]
    alone = [trial("one", speedup=1.05), trial("two", speedup=1.08), trial("slow", speedup=0.97)]
    alone.append(trial("failed", speedup=1.1, failure=Failure.CRASHED))
    alone.append(trial("refused", speedup=1.2, runs=(candidates().profile(),)))
    alone.append(trial("late", speedup=1.2, one_time_s=100.0))
    assert unshown(*alone) == [["two"], ["one"]]
    both = stacked(candidates(*alone).unshown()[:2])
    assert names([both]) == [["one", "two"]]
    assert both.log_gain == pytest.approx(math.log(1.05 * 1.08))
    assert not both.shown


def test_what_was_compared_again_by_itself_or_with_others_is_left_no_more(known: list[type[Lever]]) -> None:
    known += [lever("one", saves=0.2), lever("two", saves=0.2)]
    one, two = trial("one", speedup=1.05), trial("two", speedup=1.08)
    assert unshown(one) == [["one"]]
    assert unshown(one, one) == []
    assert unshown(one, replace(two, accepted=True)) == [["one"]]
    assert unshown(one, two, trial("one", "two", speedup=1.1)) == []
    refused = trial("one", "two", speedup=1.1, verdict=Verdict.HARMED, runs=(candidates().profile(),))
    assert unshown(one, two, refused) == [["two"], ["one"]], "one of them may be good"


def test_what_was_to_be_stacked_is_known_from_the_record(known: list[type[Lever]]) -> None:
    known += [lever("one", saves=0.2), lever("two", saves=0.2)]
    one, two = (trial(name, kind="screening", speedup=1.3) for name in ("one", "two"))

    def shown(*trials: Trial) -> list[list[str]]:
        return names(candidates(*trials).shown())

    assert shown(one, two) == [["one"], ["two"]]
    stack = trial("one", "two", speedup=1.5)
    assert shown(one, two, stack) == [["one"], ["two"]]
    assert shown(two, stack, trial("one", speedup=1.3, verdict=Verdict.HARMED)) == [["two"]]
    assert shown(one, two, replace(stack, kind="screening")) == [["one"], ["two"], ["one", "two"]]
    assert shown(one, two, replace(stack, accepted=True)) == []
    left_out = trial("two", kind="leave-one-out")
    assert shown(one, two, replace(stack, accepted=True), left_out) == [], "what was left out does not come again"


def test_a_stack_is_refused_once_also_by_what_is_left_of_it(known: list[type[Lever]]) -> None:
    known += [lever(name, saves=0.2) for name in ("a", "b", "c")]
    screened = [trial(name, kind="screening", speedup=1.3) for name in "abc"]
    found = candidates(*screened).shown()
    assert not candidates(*screened).is_refused(stacked(found))
    refused = [*screened, trial("a", "b", "c", verdict=Verdict.HARMED)]
    assert candidates(*refused).is_refused(stacked(found))
    assert not candidates(*refused).is_refused(stacked(found[1:]))
    assert candidates(*refused, trial("a", accepted=True)).is_refused(stacked(found[1:])), "a was not to blame"


def test_of_alternatives_and_of_settings_the_better_one_is_stacked(known: list[type[Lever]]) -> None:
    one, other = ALTERNATIVES[0][:2]
    known += [lever(name, saves=0.2) for name in (one, other, "third")]
    alone = [trial(one, speedup=1.05), trial(other, speedup=1.08), trial("third", speedup=1.04)]
    assert unshown(*alone) == [[other], ["third"]]
    third = candidates(*alone).unshown()[-1]
    better = replace(third, log_gain=1.0)
    assert compatible([third, better]) == [better]


def test_of_levers_of_loaders_the_best_one_is_stacked_and_the_others_come_on_top_of_it(
    known: list[type[Lever]],
) -> None:
    known += [lever(name, saves=0.5, scope_=Scope.LOADER) for name in ("one", "two")]
    known.append(lever("third", saves=0.2))
    alone = [trial(name, kind="screening", speedup=by) for name, by in (("one", 1.5), ("two", 1.6), ("third", 1.1))]
    assert names(compatible(candidates(*alone).unjudged())) == [["two"], ["third"]]
    taken = trial("two", "third", speedup=1.7, accepted=True)
    assert names(compatible(candidates(*alone, taken).unjudged())) == [["one"]]


def test_what_costs_something_once_is_ranked_by_the_whole_training(known: list[type[Lever]]) -> None:
    known += [lever("once", saves=0.5, scope_=Scope.LOADER), lever("at_once", saves=0.5, scope_=Scope.LOADER)]
    alone = [
        trial("once", kind="screening", speedup=2.0, one_time_s=1.0, break_even_step=500),
        trial("at_once", kind="screening", speedup=1.5),
    ]
    assert names(compatible(candidates(*alone).unjudged())) == [["once"]]
    assert names(compatible(candidates(*alone, total_steps=1_000).unjudged())) == [["at_once"]]
    found = {one.names[0]: one for one in candidates(*alone, total_steps=1_000).unjudged()}
    # Of 1,000 steps of 1 s it saves 500 s, and costs what 500 of them save: 250 s.
    assert found["once"].log_gain == pytest.approx(math.log(1000 / 750))


def test_a_lever_of_loaders_below_another_one_must_show_again_what_it_brings(known: list[type[Lever]]) -> None:
    known += [lever("one", saves=0.5, scope_=Scope.LOADER), lever("two", saves=0.5, scope_=Scope.LOADER)]
    known.append(lever("third", saves=0.2))
    much = (math.log(1.5),) * 5
    alone = [trial(name, accepted=True, speedup=1.5, log_ratios=much) for name in ("one", "third", "two")]
    assert [(one.names, one.shown) for one in candidates(*alone).doubtful()] == [(["one"], False), (["third"], True)]
    assert candidates(*alone[:2]).alone(spec("one")).shown


def test_what_gained_little_beside_others_must_show_it_again(known: list[type[Lever]]) -> None:
    """By chance one of many seems to, and in the confirmation others hide that it brings nothing."""
    known += [lever("much", saves=0.5), lever("little", saves=0.5)]
    much = trial("much", accepted=True, speedup=1.5, log_ratios=(0.40, 0.42, 0.40, 0.39, 0.41))
    little = trial(
        "little", on_top_of=("much",), accepted=True, speedup=1.03, log_ratios=(0.03, 0.02, 0.03, 0.04, 0.03)
    )
    assert names(candidates(much).doubtful()) == names(candidates(little).doubtful()) == [], "the confirmation says it"
    assert [(one.names, one.shown) for one in candidates(much, little).doubtful()] == [
        (["much"], True),
        (["little"], False),
    ]


def test_of_what_free_batches_bring_levers_of_loaders_have_brought_a_part(known: list[type[Lever]]) -> None:
    known += [lever("cache", saves=0.5, scope_=Scope.LOADER), CachedDataset]
    free = Ceiling(name="input", idealised="", step_s=0.001, speedup=Interval(low=3.6, mid=3.8, high=4.0))
    taken = trial("cache", accepted=True, speedup=3.2)
    for trials, left in ((), 4.0), ((taken,), 4.0 / 3.2):
        found = candidates(*trials, ceilings=(free,))
        run = replace(found.profile(), phase_s={})
        assert found._bound_s(CachedDataset(), run) == pytest.approx(fmean(run.step_s) * (1 - 1 / left))


def test_levers_know_what_the_first_look_watched(known: list[type[Lever]]) -> None:
    """The run with evidence knows more of loaders, and is made without profilers: what the device did, and where the
    input's time goes, no lever ever saw."""
    window = OperatorWindow(num_steps=5, wall_s=0.01, operators=(), num_calls=30.0, device_busy_s=0.001)
    first = replace(candidates().profile(), operators=window, input_s={InputPart.TRANSFORMS: 0.001})
    evidence = replace(first, operators=None, input_s={}, batch_digest=("x",) * len(first.step_s))
    profile = candidates(baseline=(first, evidence)).profile()
    assert profile.operators == window and profile.input_s == first.input_s

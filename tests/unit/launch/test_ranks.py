"""Records of processes that train together, compared: who is slow, who waits, and what is data on their way."""

from dataclasses import replace

import pytest

from hotlap.launch.ranks import merge
from hotlap.record import OperatorWindow, Phase, Run, Status
from tests.sample_runs import run_with

STEPS = 20


def rank(number: int, *, compute_s: float, held_s: float, world_size: int = 2) -> Run:
    run = run_with(phases={Phase.FORWARD: compute_s, Phase.COMMUNICATION: held_s}, num_steps=STEPS)
    return replace(run, rank=number, world_size=world_size, host="here")


def with_indices(run: Run) -> Run:
    return replace(run, step_index=tuple(range(10, 10 + len(run.step_s))))


# The first is ready at 5 ms and the second at 25; both go on at 28: it is held the shortest and waits for nobody.
FAST, SLOW = with_indices(rank(0, compute_s=0.005, held_s=0.023)), with_indices(rank(1, compute_s=0.025, held_s=0.003))


def test_the_one_that_is_held_the_shortest_waits_for_nobody_and_the_rest_is_transfer() -> None:
    first, second = merge([SLOW, FAST]).ranks
    assert (first.rank, second.rank) == (0, 1)
    assert first.compute_s == pytest.approx(0.005)
    assert second.compute_s == pytest.approx(0.025)
    assert first.wait_s == pytest.approx(0.020)
    assert first.transfer_s == pytest.approx(0.003)
    assert second.wait_s == pytest.approx(0.0)
    assert second.transfer_s == pytest.approx(0.003)
    assert first.phase_s[Phase.COMMUNICATION] == pytest.approx(0.023)


def test_who_is_slow_by_turns_is_told_step_by_step() -> None:
    held = {Phase.COMMUNICATION: (0.003, 0.023) * (STEPS // 2)}, {Phase.COMMUNICATION: (0.023, 0.003) * (STEPS // 2)}
    runs = [replace(run, phase_s={**run.phase_s, **mine}) for run, mine in zip((FAST, SLOW), held, strict=True)]
    assert [one.transfer_s for one in merge(runs).ranks] == pytest.approx([0.003] * 2)
    assert [one.wait_s for one in merge(runs).ranks] == pytest.approx([0.010] * 2)


def test_of_an_exchange_that_is_rarely_slow_transfer_and_waiting_add_up_to_the_communication_of_the_mean_step() -> None:
    held = {Phase.COMMUNICATION: (0.002,) * 15 + (0.082,) * 5}, {Phase.COMMUNICATION: (0.001,) * 15 + (0.081,) * 5}
    runs = [replace(run, phase_s={**run.phase_s, **mine}) for run, mine in zip((FAST, SLOW), held, strict=True)]
    first, second = merge(runs).ranks
    assert (first.transfer_s, first.wait_s) == pytest.approx((0.021, 0.001)), "the median exchange takes 1 ms"
    assert (second.transfer_s, second.wait_s) == pytest.approx((0.021, 0.0))


def test_between_some_of_the_processes_nothing_can_be_told() -> None:
    runs = [replace(run, collectives_of_some=True) for run in (FAST, SLOW)]
    assert [(one.wait_s, one.transfer_s) for one in merge(runs).ranks] == [(None, None)] * 2
    ungrouped = [FAST, replace(SLOW, host=None)]
    assert [(one.wait_s, one.transfer_s) for one in merge(ungrouped).ranks] == [(None, None)] * 2


def test_on_devices_the_shortest_collective_is_transfer_alone() -> None:
    def window(seconds: float, exposed_s: float) -> OperatorWindow:
        return OperatorWindow(
            num_steps=4,
            wall_s=0.03,
            operators=(),
            num_calls=0,
            communication_s=seconds,
            communication_exposed_s=exposed_s,
        )

    plain = [replace(run, collectives_on_device=True) for run in (FAST, SLOW)]
    windows = window(0.020, 0.015), window(0.004, 0.001)
    first, second = merge([replace(run, operators=one) for run, one in zip(plain, windows, strict=True)]).ranks
    assert first.wait_s == pytest.approx(0.016)
    assert first.transfer_s == pytest.approx(0.004)
    assert second.wait_s == pytest.approx(0.0)
    unseen = merge(plain).ranks
    assert [one.wait_s for one in unseen] == [None, None], "the host is not held, so its times say nothing"


def test_only_steps_that_all_have_recorded_are_compared() -> None:
    late = replace(SLOW, step_index=tuple(range(20, 20 + STEPS)))
    assert len(merge([FAST, late]).ranks) == 2
    assert merge([FAST, replace(SLOW, step_index=tuple(range(500, 500 + STEPS)))]).ranks == ()


def test_a_process_without_a_record_is_named() -> None:
    found = merge([replace(FAST, world_size=3), replace(SLOW, world_size=3)])
    assert any("rank 2" in note for note in found.notes)
    alone = merge([replace(SLOW, world_size=2)])
    assert alone.ranks == ()
    assert any("rank 0" in note for note in alone.notes)


def test_the_worst_that_happened_to_one_happened_to_all() -> None:
    crashed = replace(SLOW, status=Status.CRASHED, error="ValueError: no")
    found = merge([FAST, crashed])
    assert (found.status, found.error, found.rank) == (Status.CRASHED, "rank 1: ValueError: no", 0)


def test_one_process_is_left_as_it_is() -> None:
    run = run_with()
    assert merge([run]) is run


def test_who_failed_first_is_named_with_its_own_words() -> None:
    later = replace(FAST, status=Status.CRASHED, error="RuntimeError: Connection closed by peer")
    first = replace(SLOW, status=Status.CRASHED, error="ValueError: no more")
    assert merge([first, later]).error == "rank 1: ValueError: no more"


def test_what_the_gate_compares_is_kept_of_each_rank() -> None:
    assert merge([FAST, SLOW]).peers == ()
    first, second = (replace(run, batch_digest=("a",) * STEPS) for run in (FAST, SLOW))
    assert merge([second, first]).peers == (second,)


def test_a_lever_that_was_not_at_work_on_one_rank_was_not_at_work() -> None:
    idle = replace(SLOW, not_installed=("cached-dataset: its items change",))
    assert merge([FAST, idle]).not_installed == idle.not_installed


def test_an_edit_that_did_not_reach_one_rank_is_told_with_it() -> None:
    assert merge([FAST, replace(SLOW, unreached=("/x/train.py",))]).unreached == ("/x/train.py in rank 1",)

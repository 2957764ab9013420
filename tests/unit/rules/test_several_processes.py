"""What rules say of several processes: a slow one and a slow link told apart."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from hotlap import rules
from hotlap.record import CpuUse, HotLine, Phase, RankFacts, Run
from tests.edits.sites import sites
from tests.rule_runs import firing, healthy


def rank(number: int, *, phase_s: Mapping[Phase, float], lines: tuple[HotLine, ...] = ()) -> RankFacts:
    return RankFacts(
        rank=number,
        host="node",
        step_s=0.01,
        compute_s=sum(phase_s.values()),
        wait_s=0.0,
        transfer_s=0.0,
        phase_s={**phase_s, Phase.COMMUNICATION: 0.001},
        hot_lines=lines,
    )


def line(phase: Phase) -> HotLine:
    return HotLine(path="/home/train.py", line=7, function="main", text="log(model)", phase=phase, step_s=0.003)


def slow_rank() -> Run:
    return replace(
        healthy(),
        world_size=2,
        ranks=(
            rank(0, phase_s={Phase.FORWARD: 0.002, Phase.OTHER: 0.0}),
            rank(
                1,
                phase_s={Phase.FORWARD: 0.003, Phase.OTHER: 0.004},
                lines=(line(Phase.FORWARD), line(Phase.OTHER)),
            ),
        ),
    )


def found(run: Run) -> dict[str, str]:
    return {finding.code: finding.evidence for finding in rules.check(run)}


def test_a_straggler_is_named_with_the_phase_in_which_it_is_slow_and_its_line() -> None:
    assert found(slow_rank())["straggler"] == (
        "Rank 1 on node takes 7.00 ms a step without communication, the others 2.00 ms: all wait 5.00 ms (50% of each "
        "step); 4.00 ms longer in other; 3.00 ms of that in line 7 of train.py, main: log(model). It is slower, or has "
        "more to compute."
    )
    busy = CpuUse(usable_cores=2.0, main=0.25, others=0.0, runnable=1.0)
    told = found(replace(slow_rank(), cpu=busy))["straggler"]
    assert told.endswith("log(model). Other programs used the cores meanwhile, which may be all.")


def python_s(*ranks: Mapping[Phase, float]) -> dict[str, float]:
    """What is found where rank 0 spends 2.9 ms of a step of 10 ms in the script's own Python."""
    run = replace(firing("host-bound"), world_size=len(ranks))
    facts = tuple(rank(number, phase_s=phase_s) for number, phase_s in enumerate(ranks))
    return {one.code: one.cost_s for one in rules.check(replace(run, ranks=facts))}


def test_what_one_process_alone_computes_beyond_the_others_is_the_stragglers() -> None:
    model = {Phase.FORWARD: 0.006}
    said = python_s({**model, Phase.OTHER: 0.0029}, {**model, Phase.OTHER: 0.0})
    assert said == {"straggler": pytest.approx(0.0029)}


def test_what_all_processes_compute_is_no_stragglers() -> None:
    model = {Phase.FORWARD: 0.005, Phase.OTHER: 0.0029}
    assert python_s(model, model)["host-bound"] == pytest.approx(0.0029)
    said = python_s({**model, Phase.OTHER: 0.0049}, model, model)
    assert said["host-bound"] == pytest.approx(0.0029 * 29 / 49), "as far as the others have it too"
    assert said["straggler"] == pytest.approx(0.002)


def test_what_a_process_does_while_it_would_wait_for_the_slowest_costs_nothing() -> None:
    said = python_s({Phase.FORWARD: 0.003, Phase.OTHER: 0.0029}, {Phase.FORWARD: 0.009})
    assert "host-bound" not in said and "straggler" in said


def test_a_process_slow_in_one_phase_and_fast_in_another_keeps_nobody_waiting() -> None:
    said = python_s({Phase.FORWARD: 0.003, Phase.OTHER: 0.0029}, {Phase.FORWARD: 0.0059})
    assert said == {"host-bound": pytest.approx(0.0029)}


def test_waiting_for_the_slowest_stands_beside_the_exchange_that_it_is_no_part_of() -> None:
    run = firing("communication-bound")
    both = tuple(replace(rank(k, phase_s={}), transfer_s=0.004, wait_s=wait_s) for k, wait_s in enumerate((0.002, 0.0)))
    said = found(replace(run, world_size=2, ranks=both))["communication-bound"]
    assert "Each step spends 4.00 ms" in said
    assert "among 2 processes, beside 2.00 ms of waiting for the slowest" in said


def test_what_was_seen_of_the_wrapped_model_says_what_to_try() -> None:
    run = firing("communication-bound")
    (site,) = sites("model(x)\n", "model", path="train.py")
    wrapped: dict[str, str | int | float | bool | None] = {
        "data_parallel": True,
        "finds_unused": False,
        "sends_buffers": "broadcast_buffers",
    }
    told = replace(run, call_sites=(replace(site, calls="forward", detail=wrapped),))
    (finding,) = [one for one in rules.check(told) if one.code == "communication-bound"]
    assert finding.try_levers == ("buffer-broadcast", "no-sync", "gradient-compression")
    (plain,) = [one for one in rules.check(run) if one.code == "communication-bound"]
    assert plain.try_levers == ()

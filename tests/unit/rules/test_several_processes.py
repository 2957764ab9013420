"""What rules say of several processes: a slow one, unequal work, a slow link and needless exchanges told apart."""

import random
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from torch.utils import data

from hotlap import rules
from hotlap.record import Exchange, HotLine, Phase, RankFacts, Run, UnequalWork
from tests.edits.sites import sites
from tests.rule_runs import firing, healthy

SCRIPT = """from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
loader = DataLoader(data, batch_size=4)
net = DDP(layers)
loss.backward()
"""


def with_script(run: Run, folder: Path, text: str = SCRIPT) -> Run:
    path = folder / "train.py"
    path.write_text(text)
    return replace(run, sources={str(path): sha256(path.read_bytes()).hexdigest()})


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


def slow_rank(work: UnequalWork | None = None) -> Run:
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
        unequal_work=work,
    )


def found(run: Run) -> dict[str, str]:
    return {finding.code: finding.evidence for finding in rules.check(run)}


def test_a_straggler_is_named_with_the_phase_in_which_it_is_slow_and_its_line() -> None:
    assert found(slow_rank())["straggler"] == (
        "Rank 1 on node takes 7.00 ms a step without communication, the others 2.00 ms: all wait 5.00 ms (50% of each "
        "step); 4.00 ms longer in other; 3.00 ms of that in line 7 of train.py, main: log(model)."
    )


def test_a_process_that_has_more_to_compute_is_no_straggler() -> None:
    extra_s = {0: -0.0025, 1: 0.0025}
    work = UnequalWork(cost_s=0.0025, most=1.5, work={0: 10.0, 1: 30.0}, extra_s=extra_s)
    said = found(slow_rank(work))
    assert "straggler" not in said
    assert said["unequal-work"] == (
        "The process with most elements in a step has 1.50 times the mean of the 2 processes to "
        "compute: all wait 2.50 ms (25% of each step) for it, the most that equal work would bring."
    )


def test_a_process_that_is_slow_beyond_its_work_is_still_a_straggler() -> None:
    work = UnequalWork(cost_s=0.001, most=1.1, work={0: 10.0, 1: 12.0}, extra_s={0: -0.001, 1: 0.001})
    said = found(slow_rank(work))
    assert next(iter(said)) == "straggler"


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


def test_unequal_work_tells_where_batches_are_made(tmp_path: Path) -> None:
    work = UnequalWork(cost_s=0.0025, most=1.5, work={0: 20.0, 1: 21.0}, extra_s={0: 0.0, 1: 0.0})
    said = found(with_script(replace(healthy(), world_size=2, unequal_work=work), tmp_path))["unequal-work"]
    assert said.endswith("; batches are made in line 3 of train.py.")


def test_the_sampler_against_unequal_lengths_gives_all_processes_like_ones_at_a_time() -> None:
    code = rules.EXAMPLES["unequal-work"][1].replace("ByLength(texts)", "ByLength(texts, 2, rank, drop_last=True)")

    def lengths(rank: int, epoch: int) -> list[int]:
        sampler: Any = data.DistributedSampler
        names: dict[str, Any] = {"DistributedSampler": sampler, "random": random, "texts": texts, "rank": rank}
        exec(code, names)
        names["sampler"].set_epoch(epoch)
        return [len(texts[i]) for i in names["sampler"]]

    size, texts = 32, ["x" * (7 * k % 1009) for k in range(1009)]
    first, other, later = lengths(0, 0), lengths(1, 0), lengths(0, 1)
    assert len(first) == len(other) == 1009 // (2 * size) * size
    assert all(abs(a - b) == 1 for a, b in zip(first, other, strict=True)), "of all lengths, each is there once"
    spans = [max(first[i : i + size]) - min(first[i : i + size]) for i in range(0, len(first), size)]
    assert set(spans) == {2 * (size - 1)}, "a batch holds neighbours only"
    assert first != sorted(first) and first != later, "in random order, another one in each epoch"


def test_a_slow_link_is_told_by_its_speed_what_is_hidden() -> None:
    exchange = Exchange(buckets=4, num_bytes=2**20, link_s=0.008, exposed_s=0.002)
    said = found(replace(firing("communication-bound"), exchange=exchange))
    assert said["communication-bound"].endswith(
        "; 1.00 MiB in 4 buckets are on their way for 8.00 ms (125 MiB a second), 75% of that hidden behind the "
        "backward pass, in a few steps of their own."
    )


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
    assert finding.try_levers == ("buffer-broadcast", "gradient-compression")
    (plain,) = [one for one in rules.check(run) if one.code == "communication-bound"]
    assert plain.try_levers == ()


def test_needless_exchanges_come_with_the_code_before_and_after(tmp_path: Path) -> None:
    run = with_script(firing("accumulation-syncs"), tmp_path)
    needless = replace(run.sightings[0], path=str(tmp_path / "train.py"), line=5, text="loss.backward()", per_step=3.0)
    (finding,) = rules.check(replace(run, sightings=(needless,)))[:1]
    assert finding.code == "accumulation-syncs"
    assert (finding.where, finding.before) == ("train.py:5", "loss.backward()")
    assert "model.no_sync()" in finding.after
    assert finding.after.endswith("loss.backward()")
    assert finding.evidence.startswith("3 backward passes of each step average gradients over 2 processes")
    assert "at most 3.00 ms (30% of each step)" in finding.evidence

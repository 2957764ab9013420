"""Processes that train together: each its own record, merged; who is slow, who waits, and that all end together."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hotlap import rules
from hotlap.gate import Evidence, judge
from hotlap.launch import Launcher
from hotlap.levers.data_wrappers import CachedDataset, CachedPrefix
from hotlap.levers.lever import Lever
from hotlap.machine import look
from hotlap.record import Phase, Plan, Run, Status, Turn, Verdict
from hotlap.search.candidates import rejects
from tests.e2e.running import OURS, SCRIPTS, Forks, assert_phases_sum_to_steps, edited, of_a_file, run_command

pytestmark = [
    pytest.mark.e2e,
]

TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")


def together(launcher: Launcher, *args: str, **how: Any) -> Run:
    script = str(SCRIPTS / "together.py")
    return run_command(launcher, *TORCHRUN, script, *args, **how)


def test_the_slow_one_is_named_the_others_wait_and_all_end_together(launcher: Launcher) -> None:
    """It sleeps 50 ms in each step of a millisecond or two."""
    found = together(launcher, "--slow-rank", "1")
    assert found.status is Status.COMPLETE, found.output
    assert_phases_sum_to_steps(found)
    assert (found.rank, found.world_size) == (0, 2)
    first, slow = found.ranks
    assert slow.compute_s >= 0.050
    assert first.compute_s < slow.compute_s
    assert first.wait_s is not None and slow.wait_s is not None and first.transfer_s is not None
    assert first.wait_s > 0.025
    assert (first.phase_s[Phase.COMMUNICATION] or 0.0) > 0.025
    assert (slow.phase_s[Phase.OTHER] or 0.0) >= 0.050
    assert "ChildFailedError" not in found.output
    assert "Connection closed" not in found.output
    assert not found.notes


def test_collectives_that_the_script_calls_are_seen_as_well_and_what_ends_early_is_merged(forks: Forks) -> None:
    found = forks("together.py", "--start", "fork", "--slow-rank", "0", "--by-hand", "--steps", "40")
    assert found.status is Status.ENDED, found.output
    assert len(found.step_s) == 30
    slow, other = found.ranks
    assert slow.compute_s >= 0.050
    assert other.compute_s < slow.compute_s
    assert other.wait_s is not None and other.wait_s > 0.025


def test_who_waits_for_buffers_is_not_slow_himself(forks: Forks) -> None:
    """Rank 0 is slow, and sends a buffer in front of each forward pass: rank 1 waits in its forward pass."""
    found = forks("together.py", "--start", "fork", "--slow-rank", "0", "--mask", steps=30)
    assert found.status is Status.COMPLETE, found.output
    slow, other = found.ranks
    assert slow.compute_s >= 0.050
    assert other.compute_s < slow.compute_s / 2
    assert other.wait_s is not None and other.wait_s > 0.025
    assert (other.phase_s[Phase.COMMUNICATION] or 0.0) > 0.025
    told = [site.detail for site in found.call_sites if site.calls == "forward"]
    assert all(one["data_parallel"] and one["sends_buffers"] and not one["finds_unused"] for one in told)


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_trainers_that_the_script_starts_itself_are_followed(forks: Forks, method: str) -> None:
    found = forks("together.py", "--start", method, "--slow-rank", "1", steps=30)
    assert found.status is Status.COMPLETE, found.output
    assert [rank.rank for rank in found.ranks] == [0, 1]
    first, slow = found.ranks
    assert slow.compute_s >= 0.050
    assert first.compute_s < slow.compute_s


def test_a_run_whose_time_is_over_keeps_what_all_have_made(forks: Forks, much_later: Path) -> None:
    words = ("--start", "fork", "--mark", str(much_later), "--steps", "100000")
    found = forks("together.py", *words, steps=100_000)
    assert found.status is Status.LAPSED, found.output
    assert [rank.rank for rank in found.ranks] == [0, 1]


def test_a_crash_of_one_is_the_crash_of_all_and_has_its_own_words(launcher: Launcher) -> None:
    found = together(launcher, "--crash", "20")
    assert found.status is Status.CRASHED
    assert "ValueError: this one has had enough" in found.output
    assert OURS not in found.output


@pytest.mark.parametrize(("method", "count"), [("fork", None), ("spawn", 1), ("fork", 1)])
def test_processes_that_train_side_by_side_count_together_and_the_threads_lever_reaches_all(
    method: str, count: int | None
) -> None:
    """Hogwild: no process group, and torch's own number of threads in each, unless a lever says otherwise."""
    plan = Plan(
        command=(sys.executable, str(SCRIPTS / "hogwild.py"), method), cwd=str(SCRIPTS), out="", steps=30, warmup=10,
        profilers=("cpu",), arms=(({"name": "threads", "count": count},) if count else (),),
    )  # fmt: skip
    with Launcher(environment=lambda plan: {"OMP_NUM_THREADS": "2"}, folders=[SCRIPTS], timeout_s=400.0) as launcher:
        (found,) = launcher([plan], limit_s=400.0)
    assert found.status is Status.COMPLETE, found.output
    assert found.cpu is not None
    assert [one.threads for one in found.cpu.neighbours if one.ours] == [float(count or 2)]
    assert found.num_threads == (count or 2)
    ours = tuple(one for one in found.cpu.neighbours if one.ours)  # other programs may use this machine as well
    two_cores = replace(found, cpu=replace(found.cpu, neighbours=ours, usable_cores=2.0))
    codes = [finding.code for finding in rules.check(two_cores)]
    assert ("thread-oversubscription" in codes) == (count is None)


@pytest.mark.parametrize(("lever", "words"), [(CachedDataset(), ()), (CachedPrefix(), ("--pictures",))])
def test_a_data_set_that_a_sampler_shares_out_may_be_served_to_each_rank(
    forks: Forks, lever: Lever, words: tuple[str, ...], tmp_path: Path
) -> None:
    plan: dict[str, Any] = {"steps": 24, "warmup": 0, "evidence": True}
    base = forks.by_two("sharded.py", *words, **plan)
    assert base.status is Status.COMPLETE, base.output
    run = of_a_file(forks, base, "sharded.py", *words, by_two=True, folder=tmp_path)
    waits = replace(run, phase_s={**run.phase_s, Phase.INPUT: run.step_s})
    assert rejects(lever, waits, look()) is None
    (tmp_path / "edited.py").write_text(edited(run, (lever,)))
    found = forks(tmp_path / "edited.py", always=(lever.spec(),), **plan)
    assert (found.status, found.not_installed) == (Status.COMPLETE, ()), found.output
    assert {loader.dataset for loader in found.loaders} != {loader.dataset for loader in base.loaders}
    assert len({run.batch_digest for run in (found, *found.peers)}) == 2
    ruling = judge("exact", Evidence(base=(base,), lever=(found,)))
    assert ruling.verdict is Verdict.UNHARMED, ruling.why
    assert "each of 2 ranks" in ruling.why


def test_each_rank_says_whether_the_edit_reached_it_where_no_folder_can_be_covered(tmp_path: Path) -> None:
    script, copy = tmp_path / "train.py", tmp_path / "copied.py"
    for path in (script, copy):
        path.write_text((SCRIPTS / "together.py").read_text())
    line = "    torch.set_num_threads(1)\n"
    edited = script.read_text().replace(line, f"{line}    __import__('sys').stderr.write(f'edited {{rank}}\\n')\n")
    shell = f"[ $RANK = 1 ] && exec {sys.executable} copied.py; exec {sys.executable} train.py"
    plan = Plan(
        command=(*TORCHRUN, "--no-python", "sh", "-c", shell), cwd=str(tmp_path), out="", steps=20, warmup=3,
        replaced={str(script): edited},
    )  # fmt: skip
    with Launcher(environment=lambda plan: {}, folders=[], timeout_s=400.0) as launcher:
        (found,) = launcher([plan], limit_s=400.0)
    assert found.status is Status.COMPLETE, found.output
    assert "edited 0" in found.output and "edited 1" not in found.output
    assert found.unreached == (f"{script} in rank 1",)


def test_jobs_of_several_processes_take_turns_and_the_gate_sees_each_rank_of_the_edited_script(
    launcher: Launcher,
) -> None:
    """16 MB of gradients a step, and nobody slow: no memory copies as much in less than a tenth of a millisecond."""
    script = SCRIPTS / "together.py"
    line = "    torch.set_num_threads(1)\n"
    edited = script.read_text().replace(line, f"{line}    __import__('sys').stderr.write(f'edited {{rank}}\\n')\n")
    plan = Plan(
        command=(*TORCHRUN, str(script), "--width", "2048"), cwd=str(SCRIPTS), out="", steps=24, warmup=0,
        evidence=True, turn=Turn(steps=6, ready="", go=""),
    )  # fmt: skip
    base, other = launcher([plan, replace(plan, replaced={str(script): edited})], limit_s=400.0)
    assert (base.status, other.status) == (Status.COMPLETE, Status.COMPLETE), base.output + other.output
    assert {"edited 0", "edited 1"} <= set(other.output.splitlines()), other.output
    assert (other.unreached, other.not_installed) == ((), ())
    assert set(base.block) == set(other.block) == {0, 1, 2, 3}
    assert all((rank.transfer_s or 0.0) > 0.0001 for rank in base.ranks)
    ruling = judge("exact", Evidence(base=(base,), lever=(other,)))
    assert ruling.verdict is Verdict.UNHARMED, ruling.why
    assert "each of 2 ranks" in ruling.why
    assert all(any(state.parameters for state in run.states or ()) for run in (other, *other.peers))

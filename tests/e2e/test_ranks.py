"""Processes that train together: each its own record, merged; who is slow, who waits, and that all end together."""

import sys
import time

import pytest

from hotlap.launch import Launcher
from hotlap.record import Phase, Run, Status
from tests.e2e.running import OURS, SCRIPTS, assert_phases_sum_to_steps, run_command, run_script

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(sys.platform == "win32", reason="torchrun needs libuv or gloo as built for POSIX"),
]

TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")


def together(launcher: Launcher, *args: str, steps: int = 60, warmup: int = 10, limit_s: float = 170.0) -> Run:
    script = str(SCRIPTS / "together.py")
    return run_command(launcher, *TORCHRUN, script, *args, steps=steps, warmup=warmup, limit_s=limit_s)


def test_the_slow_one_is_named_and_the_others_wait_for_it(launcher: Launcher) -> None:
    found = together(launcher, "--slow-rank", "1")
    assert found.status is Status.COMPLETE, found.output
    assert_phases_sum_to_steps(found)
    assert (found.rank, found.world_size) == (0, 2)
    first, slow = found.ranks
    assert first.step_s == pytest.approx(slow.step_s, rel=0.3), "they meet in each step, so both take as long"
    assert slow.compute_s >= 0.020
    assert first.compute_s < 0.5 * slow.compute_s
    assert first.wait_s is not None and slow.wait_s is not None and first.transfer_s is not None
    assert first.wait_s > slow.wait_s + 0.010
    assert first.transfer_s < first.wait_s
    assert (first.phase_s[Phase.COMMUNICATION] or 0.0) > 0.010
    assert (slow.phase_s[Phase.OTHER] or 0.0) >= 0.020


def test_collectives_that_the_script_calls_are_seen_as_well(launcher: Launcher) -> None:
    found = together(launcher, "--slow-rank", "0", "--by-hand")
    assert found.status is Status.COMPLETE, found.output
    slow, other = found.ranks
    assert slow.compute_s > 0.020
    assert slow.compute_s > other.compute_s + 0.010
    assert other.wait_s is not None and slow.wait_s is not None
    assert other.wait_s > slow.wait_s + 0.010


def test_much_data_is_transfer_and_not_waiting(launcher: Launcher) -> None:
    """16 MB of gradients a step, and nobody slow."""
    found = together(launcher, "--width", "2048", steps=20, warmup=3)
    assert found.status is Status.COMPLETE, found.output
    assert all((rank.transfer_s or 0.0) > 0.002 for rank in found.ranks)
    assert sum(rank.transfer_s or 0.0 for rank in found.ranks) > sum(rank.wait_s or 0.0 for rank in found.ranks)


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_trainers_that_the_script_starts_itself_are_followed(launcher: Launcher, method: str) -> None:
    found = run_script(launcher, "together.py", "--start", method, "--slow-rank", "1", steps=30)
    assert found.status is Status.COMPLETE, found.output
    assert [rank.rank for rank in found.ranks] == [0, 1]
    assert found.ranks[0].compute_s < 0.5 * found.ranks[1].compute_s


def test_all_end_together_and_nothing_is_said_about_it(launcher: Launcher) -> None:
    begun = time.monotonic()
    found = together(launcher, steps=30)
    assert found.status is Status.COMPLETE
    assert "ChildFailedError" not in found.output
    assert "Connection closed" not in found.output
    assert not found.notes
    assert time.monotonic() - begun < 100, "nobody waited for a time-out of torch's"


def test_a_run_whose_time_is_over_keeps_what_all_have_made(launcher: Launcher) -> None:
    found = together(launcher, "--slow-rank", "0", "--steps", "100000", steps=100_000, limit_s=25.0)
    assert found.status is Status.LAPSED, found.output
    assert [rank.rank for rank in found.ranks] == [0, 1]


def test_a_crash_of_one_is_the_crash_of_all_and_has_its_own_words(launcher: Launcher) -> None:
    found = together(launcher, "--crash", "20")
    assert found.status is Status.CRASHED
    assert "ValueError: this one has had enough" in found.output
    assert OURS not in found.output


def test_a_script_that_comes_to_its_end_is_merged_as_well(launcher: Launcher) -> None:
    found = together(launcher, "--steps", "40")
    assert found.status is Status.ENDED, found.output
    assert len(found.step_s) == 30
    assert len(found.ranks) == 2

"""What profilers conclude from what they saw, without a training."""

import mmap
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.utils.data import ConcatDataset, Subset, TensorDataset

from hotlap import cgroups
from hotlap.probe import procfs
from hotlap.probe.profilers import cpu, what_if
from hotlap.probe.profilers import input as parts


def test_data_sets_are_found_inside_of_those_that_wrap_them() -> None:
    inner = TensorDataset(torch.zeros(4))
    outer: Subset[object] = Subset(ConcatDataset([inner, TensorDataset(torch.zeros(2))]), [0, 1])
    assert any(found is inner for found in parts._chain(outer))


def look(at: float, own: float, worker: float | None, *, throttled_s: float | None = None) -> cpu._Look:
    processes = {1: procfs.Process(own, 2 * own)}
    if worker is not None:
        processes[2] = procfs.Process(worker, 3 * worker)
    return cpu._Look(at, 1, processes, {}, throttled_s, {7: at / 4})


def test_processor_time_is_told_per_process() -> None:
    use = cpu._use(look(0, 10, 4, throttled_s=1), look(10, 25, 9, throttled_s=3))
    assert use.threads == 0.25, "of a core, by a thread beside the one that trains"
    assert (use.main, use.others) == (1.5, 0.5)
    assert use.runnable == pytest.approx(3.0 + 1.5)
    assert use.busiest_worker == pytest.approx(1.5)
    assert use.throttled == pytest.approx(0.2)


def test_a_worker_that_began_in_between_began_at_zero() -> None:
    assert cpu._use(look(0, 10, None), look(10, 25, 5)).others == 0.5


def test_page_faults_are_counted_and_what_one_takes_is_measured() -> None:
    begun, ended = look(0, 10, 4), look(10, 25, 9)
    faults = replace(ended, processes={**ended.processes, 1: replace(ended.processes[1], page_faults=5000)})
    assert cpu._use(begun, ended).page_faults == 0
    assert cpu._use(begun, faults).page_faults == 500
    assert cpu._use(begun, ended).page_fault_s > 0
    before = procfs.process(os.getpid())
    block = mmap.mmap(-1, 64 * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    block[:: mmap.PAGESIZE] = bytes(64)
    after = procfs.process(os.getpid())
    assert before is not None and after is not None and after.page_faults - before.page_faults >= 1


def test_throttled_time_is_read_in_both_versions_of_control_groups(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("0::/\n")
    assert cgroups.throttled_s(root=tmp_path, own=own) is None
    (tmp_path / "cpu.stat").write_text("nr_throttled 4\nthrottled_usec 2500000\n")
    assert cgroups.throttled_s(root=tmp_path, own=own) == 2.5
    (tmp_path / "cpu.stat").write_text("nr_throttled 4\nthrottled_time 1500000000\n")
    assert cgroups.throttled_s(root=tmp_path, own=own) == 1.5


def test_a_what_if_says_how_many_pairs_agree() -> None:
    question = what_if._Question("threads", 1, 2, lambda value: None, [2.0, 2.0, 1.0], [1.0, 1.0, 1.5])
    answer = what_if._answer(question)
    assert (answer.now_s, answer.other_s) == (2.0, 1.0)
    assert answer.agree == pytest.approx(2 / 3)


def test_another_python_program_that_computes_is_a_neighbour_and_our_own_processes_are_not(tmp_path: Path) -> None:
    script = tmp_path / "other.py"
    script.write_text("while True: pass")
    # Its shell leaves at once, so it is nobody's child here; the second one is ours.
    told = subprocess.run(
        ["sh", "-c", '"$0" "$1" >/dev/null 2>&1 & echo $!', sys.executable, str(script)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    stranger, mine = int(told.stdout), subprocess.Popen([sys.executable, str(script)])
    try:
        for pid in (stranger, mine.pid):
            await_work(pid)
        first = cpu.strangers()
        time.sleep(0.2)
        found = cpu.neighbours(tmp_path, first, cpu.strangers(), 0.2)
    finally:
        os.kill(stranger, signal.SIGKILL)
        mine.kill()
        mine.wait()
    assert [(one.name, one.ours) for one in found if one.pid in (stranger, mine.pid)] == [("other.py", False)]


def await_work(pid: int) -> None:
    """Until it has begun to compute: before, it may still be the shell."""
    for _ in range(400):
        seen = procfs.process(pid)
        if seen is not None and seen.ran_s >= 0.05:
            return
        time.sleep(0.05)


def test_processes_of_one_command_that_train_tell_each_other_their_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpu.announce(tmp_path)
    assert cpu.neighbours(tmp_path, {}, {}, 1.0) == (), "nobody is its own neighbour"
    (tmp_path / f"trainer-{os.getppid()}").write_text("2")
    (tmp_path / "trainer-4194399").write_text("2")  # above the largest number of a process: gone
    (found,) = cpu.neighbours(tmp_path, {}, {}, 1.0)
    assert (found.pid, found.threads, found.ours) == (os.getppid(), 2.0, True)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert cpu.neighbours(tmp_path, {}, {}, 1.0) == (), "torchrun's share the cores by count"


def test_a_thread_that_computes_beside_the_training_is_seen() -> None:
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            sum(range(1000))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert thread.native_id is not None
        before = cpu.threads_beside(threading.get_ident()).get(thread.native_id, 0.0)
        time.sleep(0.2)
        now = cpu.threads_beside(threading.get_ident())
        assert now[thread.native_id] > before
        assert threading.get_native_id() not in now
        assert thread.native_id not in cpu.threads_beside(thread.ident)
    finally:
        over.set()
        thread.join()

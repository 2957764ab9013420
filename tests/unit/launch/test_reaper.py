"""Hotlap is killed while a trial runs: nothing that the trial has started goes on, nothing that it wrote stays."""

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

HELD = """
import sys
from pathlib import Path
from hotlap.launch import Launcher
from hotlap.record import Plan

folder = sys.argv[1]
script = f"setsid sleep 300 & echo $! > {folder}/real/pid.draft; mv {folder}/real/pid.draft {folder}/real/pid; wait"
plan = Plan(command=("sh", "-c", script), cwd=f"{folder}/cwd", out="")
with Launcher(environment=lambda _: {}, folders=[Path(folder, "cwd")], timeout_s=300) as launcher:
    launcher([plan], limit_s=300)
"""


def test_a_grandchild_that_never_trains_ends_with_a_killed_hotlap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("cwd", "real", "scratch"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "scratch"))
    with subprocess.Popen([sys.executable, "-c", HELD, str(tmp_path)]) as hotlap:
        told = tmp_path / "real" / "pid"
        while not told.exists():
            assert hotlap.poll() is None
            time.sleep(0.01)
        sleeper = psutil.Process(int(told.read_text()))
        (reaper,) = (one for one in psutil.Process(hotlap.pid).children() if any("reaper" in w for w in one.cmdline()))
        assert list((tmp_path / "scratch").iterdir())
        # A scheduler that ends a job asks all its processes to end at once.
        while not _ignores(reaper.pid, signal.SIGTERM):
            time.sleep(0.01)
        reaper.send_signal(signal.SIGTERM)
        hotlap.send_signal(signal.SIGKILL)
    psutil.wait_procs([reaper, sleeper], timeout=60)
    assert not sleeper.is_running() or sleeper.status() == psutil.STATUS_ZOMBIE
    assert list((tmp_path / "scratch").iterdir()) == []


def _ignores(pid: int, number: signal.Signals) -> bool:
    (mask,) = re.findall(r"SigIgn:\s*(\w+)", Path(f"/proc/{pid}/status").read_text())
    return bool(int(mask, 16) >> (number - 1) & 1)

"""A job that its scheduler ends closes what it has opened, within the job."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from hotlap.launch.placed import BEGUN, BROUGHT, ORDER, Order
from hotlap.record import Plan, save
from tests.e2e.running import wait_for


def test_a_job_that_is_asked_to_end_leaves_nothing(tmp_path: Path) -> None:
    for name in ("cwd", "scratch", "job"):
        (tmp_path / name).mkdir()
    begun = tmp_path / "script-begun"
    plan = Plan(command=("sh", "-c", f"touch {begun}; exec sleep 600"), cwd=str(tmp_path / "cwd"), out="")
    folders = (str(tmp_path / "cwd"),)
    save(
        Order(plans=(plan,), folders=folders, limit_s=600.0, timeout_s=600.0, memory_bytes=None),
        tmp_path / "job" / ORDER,
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path / "scratch")}
    command = [sys.executable, "-m", "hotlap.cli.node", str(tmp_path / "job")]
    with subprocess.Popen(command, env=environment) as job:
        wait_for(begun.exists, what="script")
        job.send_signal(signal.SIGTERM)
        assert job.wait(timeout=120) == 1
    assert (tmp_path / "job" / BEGUN).exists() and not (tmp_path / "job" / BROUGHT).exists()
    assert list((tmp_path / "scratch").iterdir()) == []

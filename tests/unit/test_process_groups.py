"""Tests that make process groups, each file in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch.distributed as dist

from tests.ranks_as_threads import VARIABLE

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.processes
@pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="needs gloo")
@pytest.mark.parametrize("path", ["test_emulated_link", "levers/test_data_parallel", "probe/watches/test_buckets"])
def test_passes_by_itself(path: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", f"tests/unit/{path}.py"],
        env=os.environ | {VARIABLE: "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert "skipped" not in done.stdout.splitlines()[-1]

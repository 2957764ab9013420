"""Tests that make process groups, in a process of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch.distributed as dist

from tests.ranks_as_threads import VARIABLE

ROOT = Path(__file__).resolve().parents[2]
FILES = ("test_emulated_link", "levers/test_data_parallel")


@pytest.mark.processes
@pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="needs gloo")
def test_they_pass_by_themselves() -> None:
    paths = [f"tests/unit/{name}.py" for name in FILES]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *paths],
        env=os.environ | {VARIABLE: "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert "skipped" not in done.stdout.splitlines()[-1]

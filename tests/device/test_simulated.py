"""The device suite on the simulated GPU, in a process of its own: a backend, once registered, is there for good."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.processes
@pytest.mark.skipif(shutil.which("g++") is None, reason="the simulated GPU is compiled")
def test_the_probe_tells_the_truth_about_a_device_whose_times_are_known() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "", str(HERE / "suite.py")],
        env=os.environ | {"PYTHONPATH": str(HERE.parent), "HOTLAP_DEVICE": "sim"},
        cwd=HERE.parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]

"""The page about the levers says what their docstrings say."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_page_is_current() -> None:
    done = subprocess.run([sys.executable, "benchmarks/levers_page.py", "--check"], cwd=ROOT, check=False)
    assert done.returncode == 0, "run `python benchmarks/levers_page.py`"

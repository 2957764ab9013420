"""`hotlap data pack`, as a user types it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.running import hotlap, names

pytestmark = pytest.mark.e2e

SOURCE = """
import time

import torch
from torch.utils.data import Dataset


class Squares(Dataset):
    def __init__(self, num_items, wait_s=0.0):
        self.num_items, self.wait_s = num_items, wait_s

    def __len__(self):
        return self.num_items

    def __getitem__(self, index):
        time.sleep(self.wait_s)
        return torch.full((2, 3), float(index * index)), index % 5, f"number {index}"


def slow():
    return Squares(1000, wait_s=0.05)
"""

READING = """
from torch.utils.data import DataLoader
from hotlap.data import packed
from squares import Squares
import torch

for (images, labels, names), (other, numbers, texts) in zip(
    DataLoader(packed("there"), batch_size=8, num_workers=1), DataLoader(Squares(20), batch_size=8), strict=True
):
    assert torch.equal(images, other) and torch.equal(labels, numbers) and names == texts
print("the same")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pytest.importorskip("pyarrow", reason="packed data sets need pyarrow: pip install 'hotlap[pack]'")
    (tmp_path / "squares.py").write_text(SOURCE)
    return tmp_path


def test_what_was_packed_is_read_by_a_training(folder: Path) -> None:
    estimated = hotlap("data", "pack", "squares.py:Squares", "--arg", "num_items=20", "--estimate", cwd=folder)
    assert (estimated.returncode, estimated.stderr) == (0, "")
    assert "items/s" in estimated.stdout
    done = hotlap("data", "pack", "squares.py:Squares", "--arg", "num_items=20", "--to", "there", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert "20 items of squares.py:Squares" in done.stdout
    assert "all were computed again and are equal bit for bit" in done.stdout
    (folder / "reading.py").write_text(READING)
    read = subprocess.run([sys.executable, "reading.py"], cwd=folder, capture_output=True, text=True, check=False)
    assert (read.returncode, read.stdout) == (0, "the same\n"), read.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_packing_leaves_nothing(number: signal.Signals, folder: Path) -> None:
    before = names(folder)
    command = [sys.executable, "-m", "hotlap", "data", "pack", "squares.py:slow", "--to", "there"]
    packing = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    # It writes for more than 50 s.
    while not any(folder.glob(".there.*.partial/*.arrow")) and packing.poll() is None:
        time.sleep(0.05)
    os.kill(packing.pid, number)
    said = packing.communicate(timeout=120)
    assert (packing.returncode, *said) == (130, "", "hotlap: interrupted; nothing was packed.\n")
    assert names(folder) - {"__pycache__"} == before

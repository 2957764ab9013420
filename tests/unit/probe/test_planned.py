"""hotlap.probe.planned: how many steps the loops around a step will make."""

import sys
import textwrap
from pathlib import Path

import pytest

from hotlap.probe.planned import planned_steps

HEAD = """
import argparse
from torch.utils.data import DataLoader
class Settings:
    epochs = 3
def tqdm(x, **k): return x
args = argparse.Namespace(epochs=5)
config = {"steps": 70}
loader = DataLoader(list(range(100)), batch_size=10)
def train(epoch):
    for number, batch in enumerate(tqdm(loader, desc="x")):
        step()
"""


def planned(tmp_path: Path, body: str, *, batches_a_step: int = 1, num_batches: int | None = None) -> list[int | None]:
    """What is known at the first step of a script."""
    path = tmp_path / "train.py"
    path.write_text(HEAD + textwrap.dedent(body))
    found: list[int | None] = []

    def step() -> None:
        if not found:
            found.append(planned_steps(sys._getframe(1), batches_a_step=batches_a_step, num_batches=num_batches))

    exec(compile(path.read_text(), str(path), "exec"), {"step": step})  # as runpy does
    return found


@pytest.mark.parametrize(
    ("body", "steps"),
    [
        ("for epoch in range(args.epochs):\n    for batch in loader:\n        step()", 50),
        ("for epoch in range(1, args.epochs + 1):\n    train(epoch)", 50),
        ("for step_ in range(config['steps']):\n    step()", 70),
        ("for epoch in tqdm(range(2)):\n    for i in range(len(loader)):\n        step()", 20),
        ("def main():\n    n = 4\n    for e in range(n * 2):\n        if e >= 0:\n            train(e)\nmain()", 80),
        ("for seed in (1, 2):\n    for e in range(3):\n        train(e)", 60),
        ("for batch in loader:\n    step()\nfor e in range(9):\n    pass", 10),
    ],
)
def test_loops_over_ranges_and_loaders_are_counted(tmp_path: Path, body: str, steps: int) -> None:
    assert planned(tmp_path, body) == [steps]


@pytest.mark.parametrize(
    "body",
    [
        "while True:\n    step()\n    break",
        "for e in iter(int, 1):\n    step()\n    break",
        "import itertools\nfor e in itertools.count():\n    train(e)\n    break",
        "for e in range(Settings().epochs):\n    train(e)",  # it may be a property
        "step()",
        "scores = [train(fold) for fold in (1, 2)]",
        "for seed in (1, 2):\n    print([\n        train(fold)\n        for fold in (1, 2)\n    ])",
    ],
)
def test_what_the_source_does_not_say_is_not_known(tmp_path: Path, body: str) -> None:
    assert planned(tmp_path, body) == [None]


def test_accumulated_batches_are_one_step(tmp_path: Path) -> None:
    assert planned(tmp_path, "for e in range(4):\n    train(e)", batches_a_step=5) == [8]


def test_a_loader_that_is_made_in_the_head_of_its_loop_is_known_by_its_batches(tmp_path: Path) -> None:
    anew = "for e in range(4):\n    for i, b in enumerate(DataLoader([1, 2, 3])):\n        step()"
    assert planned(tmp_path, anew, num_batches=3) == [12]
    assert planned(tmp_path, anew) == [None]
    other = "def batches(): return [1, 2]\nfor e in range(4):\n    for b in batches():\n        step()"
    assert planned(tmp_path, other, num_batches=3) == [None]


def test_nothing_of_the_script_is_run_to_find_out(tmp_path: Path) -> None:
    body = """
    class Loud:
        @property
        def epochs(self):
            raise SystemExit("asked")
    class Count:
        calls = 0
        def __len__(self):
            Count.calls += 1
            return 3
        def __iter__(self):
            return iter((1, 2, 3))
    loud = Loud()
    for e in Count():
        step()
    assert not Count.calls
    """
    assert planned(tmp_path, body) == [None]

"""hotlap.probe.planned: a script that trains in several parts is known by the source behind its first one."""

import sys
import textwrap
from pathlib import Path

import pytest

from hotlap.probe.planned import trains_again

HEAD = """
class Optimizer:
    def step(self): step()
class Loss:
    def backward(self): pass
loss, optimizer, loader = Loss(), Optimizer(), [1, 2, 3]
def train(epochs):
    for epoch in range(epochs):
        for batch in loader:
            loss.backward()
            optimizer.step()
def one_step(batch):
    loss.backward()
    optimizer.step()
def validate():
    return sum(x for x in loader)
class Trainer:
    def fit(self):
        for batch in loader:
            self.train_step(batch)
    def train_step(self, batch):
        loss.backward()
        optimizer.step()
"""
LOOP = "for batch in loader:\n    loss.backward()\n    optimizer.step()\n"


def again(tmp_path: Path, body: str) -> str | None:
    """What is known at the first step of a script, as a line of `body` from 1."""
    path = tmp_path / "train.py"
    path.write_text(HEAD + textwrap.dedent(body))
    found: list[str | None] = []

    def step() -> None:
        if not found:
            found.append(trains_again(sys._getframe(1)))

    exec(compile(path.read_text(), str(path), "exec"), {"step": step})  # as runpy does
    (place,) = found
    if place is None:
        return None
    name, _, line = place.partition(":")
    assert name == "train.py"
    return path.read_text().splitlines()[int(line) - 1].strip()


@pytest.mark.parametrize(
    ("body", "place"),
    [
        (f"{LOOP}{LOOP.replace('batch', 'other')}", "for other in loader:"),
        ("train(2)\nvalidate()\ntrain(20)", "train(20)"),
        (f"train(2)\n{LOOP}", "for batch in loader:"),
        ("def main():\n    train(2)\n    print('tune')\n    train(3)\nmain()", "train(3)"),
        ("train(2)\nfor batch in loader:\n    one_step(batch)", "for batch in loader:"),
        ("train(2)\ntrainer = Trainer()\nTrainer.fit(trainer)", "Trainer.fit(trainer)"),
        ("a, b = Trainer(), Trainer()\na.fit()\nb.fit()", "b.fit()"),
        ("Trainer().fit()\nother = Trainer()\nother.fit()", "other.fit()"),
        (
            "for epoch in range(2):\n    for batch in loader:\n        one_step(batch)\n    train(1)\n",
            "train(1)",
        ),
    ],
)
def test_the_next_part_is_found(tmp_path: Path, body: str, place: str) -> None:
    assert again(tmp_path, body) == place


@pytest.mark.parametrize(
    "body",
    [
        LOOP,
        "train(2)\nvalidate()\nfor x in loader:\n    print(x)",
        "def later():\n    train(3)\ntrain(2)",
        "for fold in range(3):\n    train(2)\n    validate()",
        # Two halves of one step, as a GAN has them.
        "for batch in loader:\n    one_step(batch)\n    one_step(batch)",
        # Gradients of inputs, of which nothing is learnt.
        "train(2)\nfor x in loader:\n    loss.backward()",
        "Trainer().fit()\nprint(max(loader))",
        "try:\n    train(2)\nexcept KeyboardInterrupt:\n    train(1)",
    ],
)
def test_what_is_no_other_part_is_not_taken_for_one(tmp_path: Path, body: str) -> None:
    assert again(tmp_path, body) is None

"""hotlap.probe.next_part: a script that trains in several parts is known by the source behind its first one."""

import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path

import pytest
import torch

from hotlap.probe.next_part import trains_again
from hotlap.probe.parts import Made
from hotlap.probe.sites import outwards

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
MODELS = """
import torch
class Net(torch.nn.Linear):
    def __init__(self): super().__init__(1, 1)
class SGD(Optimizer):
    def __init__(self, parameters): made(parameters)
def fit(net):
    sgd = SGD(list(net.parameters()))
    for epoch in range(2):
        for batch in loader:
            loss.backward()
            sgd.step()
def fit_own(rows, width=3):
    made = Net()
    made = made.to("cpu")
    fit(made)
class Agent:
    def __init__(self, net):
        self.net = net
        self.sgd = SGD(params := self.net.parameters())
    def learn(self):
        for batch in loader:
            loss.backward()
            self.sgd.step()
class Whole(Net):
    def __init__(self):
        super().__init__()
        self.sgd = SGD(self.parameters())
    learn = Agent.learn
class Experiment:
    def run(self):
        for seed in range(3):
            self.net = Net()
            self.train()
    def train(self):
        fit(self.net)
class Built(Experiment):
    def build(self):
        self.net = Net()
    def run(self):
        for seed in range(3):
            self.build()
            self.train()
"""
LOOP = "for batch in loader:\n    loss.backward()\n    optimizer.step()\n"


def again(tmp_path: Path, body: str) -> str | None:
    """What is known at the first step of a script, as a line of `body` from 1."""
    path = tmp_path / "train.py"
    path.write_text(HEAD + MODELS + textwrap.dedent(body))
    found: list[str | None] = []
    optimizers: list[Made] = []

    def made(parameters: Iterable[torch.Tensor]) -> None:
        optimizers.append({id(frame): frame.f_lineno for frame in outwards(sys._getframe())})

    def step() -> None:
        if not found:
            found.append(trains_again(sys._getframe(1), optimizers))

    exec(compile(path.read_text(), str(path), "exec"), {"step": step, "made": made})  # as runpy does
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
        ("train(2); train(3)", "train(2); train(3)"),
    ],
)
def test_the_next_part_is_found(tmp_path: Path, body: str, place: str) -> None:
    assert again(tmp_path, body) == place


CLOSURE = """
def closure():
    loss.backward()
    return loss
class Lbfgs:
    def step(self, closure): return step(), closure()
lbfgs = Lbfgs()
"""


@pytest.mark.parametrize(
    ("body", "place"),
    [
        (f"{LOOP}lbfgs.step(closure)", "lbfgs.step(closure)"),
        ("train(2)\nlbfgs.step(lambda: loss.backward())", "lbfgs.step(lambda: loss.backward())"),
        ("train(2)\nfor _ in range(3):\n    lbfgs.step(closure=closure)", "for _ in range(3):"),
        # A step that makes none of the training, and one that others are taken beside.
        ("class Plateau:\n    def step(self, loss): pass\ntrain(2)\nPlateau().step(loss)", None),
        ("for batch in loader:\n    lbfgs.step(closure)\n    lbfgs.step(closure)", None),
        ("def both():\n    lbfgs.step(closure)\n    lbfgs.step(closure)\nfor batch in loader:\n    both()", None),
    ],
)
def test_one_step_by_a_closure_behind_a_loop_is_another_part(tmp_path: Path, body: str, place: str | None) -> None:
    assert again(tmp_path, f"{CLOSURE}{body}") == place


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ("for fold in range(3):\n    fit(Net())", "for fold in range(3):"),
        (
            "def main():\n    for fold in range(3):\n        net = Net()\n        fit(net)\nmain()",
            "for fold in range(3):",
        ),
        ("print([fit_own(rows) for rows in (1, 2)])", "print([fit_own(rows) for rows in (1, 2)])"),
        (
            "def main():\n    for width in (1, 2):\n        scores = [\n            fit_own(rows, width=width)\n"
            "            for rows in (1, 2)\n        ]\nmain()",
            "scores = [",
        ),
        ("for net in (Net(), Net()):\n    fit(net)", "for net in (Net(), Net()):"),
        (
            "for seed in range(3):\n    agent = Agent(Net())\n    for _ in range(2):\n        agent.learn()",
            "for seed in range(3):",
        ),
        ("for seed in range(3):\n    Whole().learn()", "for seed in range(3):"),
        ("Experiment().run()", "for seed in range(3):"),
        ("Built().run()", "for seed in range(3):"),
        ("seed = 0\nwhile seed < 3:\n    seed += 1\n    model: Net = Net()\n    fit(model)", "while seed < 3:"),
    ],
)
def test_a_loop_that_trains_another_model_each_turn_is_found(tmp_path: Path, body: str, place: str) -> None:
    assert again(tmp_path, body) == place


@pytest.mark.parametrize(
    "body",
    [
        "agent = Agent(Net())\nfor epoch in range(3):\n    other = Net()\n    agent.learn()",
        "import copy\nnet = Net()\nfor task in range(3):\n    fit(copy.deepcopy(net))",
        "for run in range(1):\n    fit(Net())",
        # One step each: nothing is trained on.
        "for batch in loader:\n    sgd = SGD(Net().parameters())\n    one_step(batch)",
    ],
)
def test_a_loop_whose_turns_make_no_optimizer_to_train_with_is_no_other_training(tmp_path: Path, body: str) -> None:
    assert again(tmp_path, body) is None


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
        # Before and behind it on one line.
        "import time\nt0 = time.time(); Trainer().fit(); print(time.time() - t0)",
        "try:\n    train(2)\nexcept KeyboardInterrupt:\n    train(1)",
    ],
)
def test_what_is_no_other_part_is_not_taken_for_one(tmp_path: Path, body: str) -> None:
    assert again(tmp_path, body) is None

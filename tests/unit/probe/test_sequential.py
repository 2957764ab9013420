"""Calls of a loop that need what came of the one before are told from those that could be made as one."""

import sys
from pathlib import Path
from types import CodeType, SimpleNamespace
from typing import Any

import pytest

from hotlap.probe.sequential import is_sequential
from hotlap.probe.sites import outwards

Asked = list[tuple[CodeType, int]]

ACTOR_CRITIC = """
def select_action(state):
    state = float(state)
    probs, value = model(state)
    saved.append((probs, value))
    return probs

for episode in range(2):
    state, reward = env.reset(), 0
    for t in range(1, 4):
        action = select_action(state)
        state, reward, done = env.step(action)
        rewards.append(reward)
        total += reward
        if done:
            break
"""
AGENT = """
class Agent:
    def __init__(self):
        self.state, self.rewards = env.reset(), []

    def play(self):
        state = self.state
        action, _ = model(state)
        self.state, reward, _ = env.step(action)
        self.rewards.append(reward)

agent = Agent()
for t in range(3):
    agent.play()
"""
WHILE = """
state = env.reset()
while not done:
    with torch.no_grad():
        action = model(state)[0]
    env.step(action)
    state = env.state
    done = steps.append(action) or len(steps) > 3
"""
ASKED = """
for t in range(3):
    seen = env.reset()
    action, _ = model(seen)
    chosen = float(action)
    reward, done, _ = env.step(chosen)
"""
WRITTEN = """
import math

class Net:
    def loss(self, one):
        sample = self.read(math.floor(one))
        out, _ = model(sample)
        self.write(math.ceil(out))

    def read(self, one):
        return one

    def write(self, out):
        saved.append(out)

net = Net()
for one in x:
    net.loss(one)
"""
SAMPLES = """
for sample, label in zip(x, x):
    sample = float(sample)
    out, _ = model(sample)
    saved.append((out, label))
    total += out
    env.step(out)
"""
ONE_NAME = """
for k in range(3):
    h = x[k]
    h = model(h)
    saved.append(h)
"""
COUNTED = """
k, rows = 0, {}
while k < 3:
    rows[k] = model(x[k])
    k = k + 1
"""
BUFFER = """
rows = {0: 0.0}
for t in range(3):
    action, _ = model(rows[t])
    rows[t + 1], _, done = env.step(action)
"""
SUMMED = "total = sum(model(one)[0] for one in x)"
LAYERS = """
class Net:
    def loss(self, h):
        h = model(h)
        h = model(h)
        self.losses = torch.stack([h])

for k in range(3):
    Net().loss(x[k])
"""
IMPORTED = """
import math

for k in range(3):
    out, _ = model(math.floor(x[k]))
    saved.append(math.ceil(out))
"""


def calls_of(path: Path, text: str) -> list[Asked]:
    """Calls in the script that were under way where it called `model`."""
    path.write_text(text)
    found: list[Asked] = []

    def model(given: Any) -> Any:
        frames = (frame for frame in outwards(sys._getframe(1)) if frame.f_code.co_filename == str(path))
        found.append([(frame.f_code, frame.f_lasti) for frame in frames])
        return 1.0, 2.0

    class Env:
        state = 0.0

        def reset(self) -> float:
            return 0.0

        def step(self, action: Any) -> tuple[float, float, bool]:
            return 1.0, 1.0, False

    torch = SimpleNamespace(no_grad=lambda: __import__("contextlib").nullcontext(), stack=list)
    given: dict[str, Any] = {"model": model, "env": Env(), "torch": torch, "x": [1.0, 2.0, 3.0], "total": 0.0}
    given |= {"saved": [], "rewards": [], "steps": [], "done": False, "__name__": "__main__"}
    exec(compile(text, str(path), "exec"), given)
    return found


@pytest.mark.parametrize(
    "text",
    [ACTOR_CRITIC, AGENT, WHILE, BUFFER, ASKED],
    ids=["function", "attribute", "object", "buffer", "method"],
)
def test_acting_is_sequential(tmp_path: Path, text: str) -> None:
    asked = calls_of(tmp_path / "acts.py", text)
    assert len(asked) >= 3
    assert all(map(is_sequential, asked))


@pytest.mark.parametrize(
    "text",
    [SAMPLES, ONE_NAME, COUNTED, SUMMED, LAYERS, IMPORTED, WRITTEN],
    ids=["samples", "one name", "counted", "summed", "layers", "imported", "written"],
)
def test_samples_are_independent(tmp_path: Path, text: str) -> None:
    asked = calls_of(tmp_path / "loops.py", text)
    assert len(asked) >= 3
    assert not any(map(is_sequential, asked))


def test_what_the_source_does_not_show_is_not_sequential() -> None:
    generated = compile("model(1)", "<string>", "exec")
    assert not is_sequential([])
    assert not is_sequential([(generated.replace(co_linetable=b""), 0)])

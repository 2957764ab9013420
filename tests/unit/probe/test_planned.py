"""hotlap.probe.planned: how many steps the loops around a step will make."""

import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from hotlap.probe.planned import planned_steps

HEAD = """
import argparse, math
import numpy as np
import torch
from torch.utils.data import DataLoader
x = torch.zeros(100, 3)
y = np.zeros((30, 2))
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


def planned(
    tmp_path: Path,
    body: str,
    *,
    batches_a_step: int = 1,
    num_batches: int | None = None,
    also: Callable[[], object] = lambda: None,
) -> list[int | None]:
    """What is known at the first step of a script. `also` is called at each."""
    path = tmp_path / "train.py"
    path.write_text(HEAD + textwrap.dedent(body))
    found: list[int | None] = []

    def step() -> None:
        also()
        if not found:
            found.append(
                planned_steps(sys._getframe(1), made=1, batches_a_step=batches_a_step, num_batches=num_batches)
            )

    exec(compile(path.read_text(), str(path), "exec"), {"step": step})  # as runpy does
    return found


DATA_ITER = """
def data_iter(size, features):
    rows = list(range(len(features)))
    for i in range(0, len(features), size):
        picked = rows[i : i + size]
        yield features[picked]

"""
OF_A_CLASS = """
class Data:
    def batches(self):
        for batch in loader:
            for part in (0, 1):
                yield batch[part::2]

data = Data()
"""


@pytest.mark.parametrize(
    ("body", "steps"),
    [
        (f"{DATA_ITER}for e in range(3):\n    for batch in data_iter(8, x):\n        step()", 39),
        (f"{DATA_ITER}for k, batch in enumerate(tqdm(data_iter(8, x))):\n    step()", 13),
        (f"{OF_A_CLASS}for e in range(3):\n    for batch in data.batches():\n        step()", 60),
    ],
)
def test_batches_of_a_generator_are_as_many_as_its_loops_go_round(tmp_path: Path, body: str, steps: int) -> None:
    assert planned(tmp_path, body) == [steps]


@pytest.mark.parametrize(
    "generator",
    [
        "while len(seen) < 9:\n        yield seen.append(1)",
        "for k in range(9):\n        if k % 2:\n            yield 1",
        "for k in range(9):\n        yield 1\n        if k > 3:\n            break",
        "for k in range(9):\n        yield 1\n        yield 2",
        "yield from range(9)",
        "for k in map(int, [1]):\n        yield 1",
    ],
)
def test_batches_of_other_generators_are_not_known(tmp_path: Path, generator: str) -> None:
    assert planned(tmp_path, f"seen = []\ndef batches():\n    {generator}\nfor batch in batches():\n    step()") == [
        None
    ]
    body = f"{DATA_ITER}a, b = data_iter(8, x), data_iter(4, x)\nnext(b)\nfor one in data_iter(8, x):\n    step()"
    assert planned(tmp_path, body) == [None], "several are under way"


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
        ("for e in range(2):\n    for i in range(0, x.size(0) - 1, 10):\n        step()", 20),
        ("for i in range(0, x.shape[0], 8):\n    step()", 13),
        ("for e in range(2):\n    for i in range(-(-len(x) // 8)):\n        step()", 26),
        ("for i in range(math.ceil(len(x) / 8)):\n    step()", 13),
        ("for i in range(int(x.size(0) / 8)):\n    step()", 12),
        ("for i in range(min(len(x), 2**5)):\n    step()", 32),
        ("for e in range(2):\n    for rows in torch.randperm(len(x)).split(8):\n        step()", 26),
        ("for a, b in zip(x.split(8), range(20)):\n    step()", 13),
        ("for row in y:\n    step()", 30),
        (
            "from tqdm import tqdm\nfor e in range(2):\n    bar = tqdm(loader, disable=True)\n"
            "    for i, batch in enumerate(bar):\n        step()",
            20,
        ),
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
        "for word in 'a b'.split(' '):\n    step()",
        "class Odd:\n    shape = (3,)\n    def size(self, axis): return 3\nfor e in range(Odd().size(0)):\n    step()",
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


WHILES = {
    "a limit in its head": "i = 0\nwhile i < args.limit:\n    step()\n    i += 1",
    "a limit that is reached": "i = 1\nwhile i <= args.limit:\n    i += 1\n    step()",
    "the limit first": "i = 0\nwhile args.limit > i:\n    step()\n    i += 1",
    "another condition": "i, done = 0, False\nwhile i < args.limit and not done:\n    step()\n    i += 1",
    "a break behind the step": """
        i = 0
        while True:
            step()
            i += 1
            if i > args.limit:
                break
        """,
    "a break before it": "i = 0\nwhile True:\n    if i >= args.limit: break\n    i += 1\n    step()",
    "a break between": "i = 0\nwhile True:\n    step()\n    if i == args.limit: break\n    i += 1",
    "a break behind the counter": "i = 0\nwhile 1:\n    i += 1\n    if args.limit < i: break\n    step()",
    "steps of three": "i = 0\nwhile i < args.limit:\n    step()\n    i += 3",
    "an attribute": """
        class Trainer:
            def __init__(self): self.number = 0
            def fit(self, limit):
                while self.number < limit:
                    step()
                    self.number += 1
        Trainer().fit(args.limit)
        """,
    "epochs": "epoch = 0\nwhile epoch < args.epochs:\n    train(epoch)\n    epoch += 1",
    "epochs from one": "epoch = 0\nwhile epoch < args.epochs:\n    epoch += 1\n    for b in loader:\n        step()",
    "all steps of all epochs": """
        i = 0
        while i < args.limit:
            for batch in loader:
                step()
                i += 1
        """,
    "a return from within": """
        def fit():
            i = 0
            while True:
                for batch in loader:
                    if i >= args.limit:
                        return
                    step()
                    i += 1
        fit()
        """,
    "within a loop over folds": """
        for fold in range(2):
            i = 0
            while i < args.limit:
                step()
                i += 1
        """,
}


@pytest.mark.parametrize("body", WHILES.values(), ids=WHILES)
def test_a_while_loop_goes_round_until_its_counter_comes_to_a_limit(tmp_path: Path, body: str) -> None:
    made: list[int] = []
    found = planned(tmp_path, "args.limit = 30\n" + textwrap.dedent(body), also=lambda: made.append(1))
    assert found == [len(made)]


LEFT = {
    "before the step": """
        for e in range(3):
            for i, b in enumerate(loader):
                if i >= args.limit: break
                step()
        """,
    "behind it": """
        for e in range(3):
            for i, b in enumerate(loader):
                step()
                if i == args.limit: break
        """,
    "later than its end": "for i, b in enumerate(tqdm(loader)):\n    step()\n    if i > 1000: break",
    "so long after the last time": """
        last = 0
        for i in range(50):
            step()
            last = i
            if i > last + 5: break
        """,
    "by a function": """
        def epoch():
            for i in range(1000):
                if i > args.limit:
                    return
                step()
        for e in range(3):
            epoch()
        """,
}


@pytest.mark.parametrize("body", LEFT.values(), ids=LEFT)
def test_a_loop_that_is_left_at_some_round_goes_round_as_often(tmp_path: Path, body: str) -> None:
    made: list[int] = []
    found = planned(tmp_path, "args.limit = 4\n" + textwrap.dedent(body), also=lambda: made.append(1))
    assert found == [len(made)]


def test_where_batches_are_gathered_a_counter_counts_them_or_steps(tmp_path: Path) -> None:
    of_batches = "i = 0\nwhile i < 60:\n    i += 1\n    if i % 4 == 0:\n        step()"
    assert planned(tmp_path, of_batches, batches_a_step=4) == [15]
    (tmp_path / "steps").mkdir()
    of_steps = """
    i = 0
    while i < 60:
        for number, batch in enumerate(loader):
            if number % 5 == 4:
                step()
                i += 1
    """
    assert planned(tmp_path / "steps", of_steps, batches_a_step=5) == [60]


@pytest.mark.parametrize(
    "body",
    [
        "i, found = 0, [1, 2]\nwhile found:\n    step()\n    found.pop()",
        "loss = 8\nwhile loss > 1:\n    step()\n    loss /= 2",
        "i = 0\nwhile i < 9:\n    step()\n    i += 1\n    if i == 5: i = 7",
        "i, last = 0, 0\nwhile True:\n    step()\n    i += 1\n    if i > last + 9: break\n    last = i // 2",
        "i, best = 0, [0]\nwhile i < best[0] + 9:\n    step()\n    i += 1\n    best[0] = i // 2",
        "i = 0\nwhile i < 9:\n    step()\n    i += 1\n    if i == 5: i -= -2",
        "i = 10\nwhile i != 3:\n    step()\n    i += 1\n    if i == 20: i -= 17",
        "i = 0\nwhile i < 9:\n    step()\n    if loader.batch_size: i += 1",
        "i = 0\nwhile i < 9:\n    step()\n    for word in 'abc': i += 1",
    ],
)
def test_other_while_loops_are_not_known(tmp_path: Path, body: str) -> None:
    assert planned(tmp_path, body) == [None]

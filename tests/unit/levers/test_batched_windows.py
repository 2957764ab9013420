"""Stacked slices are found, gathered at once, and mean the same; near misses are left alone."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent
from types import FunctionType, ModuleType

import pytest
import torch

from hotlap.levers import Patch
from hotlap.levers.batched_windows import BatchedWindows
from hotlap.record import Phase
from hotlap.source import patch
from tests.conformance.recorded import OWN, SCRIPTS, run_of
from tests.sample_runs import machine

HEAD = """\
import numpy as np
import torch

data = torch.arange(1000) % 65
tokens = np.arange(1000).astype(np.uint16)
n = 16

class config:
    block_size = 12

def get_batch(split="train"):
    source = data[:900] if split == "train" else data[900:]
    ix = torch.randint(len(source) - 20, (4,))
"""


@pytest.fixture
def installed() -> Iterator[Patch]:
    patch = Patch()
    yield patch
    patch.undo()


def script(folder: Path, body: str) -> Path:
    path = folder / "train.py"
    path.write_text(HEAD + indent(body, "    "))
    return path


def changed(path: Path) -> str | None:
    """The patched text; None where nothing is changed."""
    return patch(BatchedWindows().edits(run_of(path)), root=path.parent).texts.get(str(path))


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("train", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["train"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def no_script_left() -> Iterator[None]:
    yield
    sys.modules.pop("train", None)


SAME = {
    "x, y = stacks of one tensor": (
        "x = torch.stack([source[i:i+n] for i in ix])\ny = torch.stack([source[i+1:i+n+1] for i in ix])\nreturn x, y\n",
        ["windows(source, ix, 0, n)", "windows(source, ix, 1, n + 1)"],
    ),
    "brackets, another order, an attribute": (
        "return torch.stack([source[(1 + i) : (i + (1 + config.block_size))] for i in ix])\n",
        ["windows(source, ix, 1, 1 + config.block_size)"],
    ),
    "less one": (
        "return torch.stack([source[i : i + (n - 1)] for i in ix])\n",
        ["windows(source, ix, 0, n - 1)"],
    ),
    "drawn on the way": (
        "return torch.stack([source[j : j + n] for j in torch.randint(50, (3,))])\n",
        ["windows(source, torch.randint(50, (3,)), 0, n)"],
    ),
    "an array": (
        "return torch.stack([torch.from_numpy((tokens[i:i+n]).astype(np.int64)) for i in ix])\n",
        ["windows(tokens, ix, 0, n, astype=np.int64)"],
    ),
    "moved": (
        "x = torch.stack([source[i:i+n] for i in ix]).to('cpu')\nreturn x\n",
        ["windows(source, ix, 0, n).to('cpu')"],
    ),
}


def batches(module: ModuleType) -> list[torch.Tensor]:
    """Some, and the state of the generator behind them."""
    torch.manual_seed(1)
    found = []
    for split in ("train", "val", "train"):
        made = module.get_batch(split)
        found += list(made) if isinstance(made, tuple) else [made]
    return [*found, torch.get_rng_state()]


@pytest.mark.parametrize("name", SAME)
def test_the_change_means_the_same(name: str, tmp_path: Path) -> None:
    body, calls = SAME[name]
    path = script(tmp_path, body)
    before = batches(load(path))
    text = changed(path)
    assert text is not None and all(call in text for call in calls), text
    path.write_text(text)
    assert all(map(torch.equal, batches(load(path)), before))
    assert changed(path) is None


OTHERWISE = {
    "steps": "torch.stack([source[i:i+n:2] for i in ix])",
    "no end": "torch.stack([source[i:] for i in ix])",
    "fixed begin": "torch.stack([source[3:i+n] for i in ix])",
    "begin less one": "torch.stack([source[i-1:i+n] for i in ix])",
    "a condition": "torch.stack([source[i:i+n] for i in ix if i > 2])",
    "two loops": "torch.stack([source[i:i+n] for k in ix for i in k])",
    "a call": "torch.stack([load(i)[i:i+n] for i in ix])",
    "a call in the length": "torch.stack([source[i:i+draw()] for i in ix])",
    "the loop's own in the length": "torch.stack([source[i:i+n*i] for i in ix])",
    "along the end": "torch.stack([source[i:i+n] for i in ix], dim=1)",
    "changed afterwards": "torch.stack([source[i:i+n] + 1 for i in ix])",
    "cat": "torch.cat([source[i:i+n] for i in ix])",
    "a stack of the script's own": "stack([source[i:i+n] for i in ix])",
    "a closure": "(lambda: torch.stack([source[i:i+n] for i in ix]))()",
}


@pytest.mark.parametrize("name", OTHERWISE)
def test_what_is_written_otherwise_is_left_alone(name: str, tmp_path: Path) -> None:
    assert changed(script(tmp_path, f"return {OTHERWISE[name]}\n")) is None


def test_a_running_function_is_switched_on_and_off(tmp_path: Path, installed: Patch) -> None:
    module = load(script(tmp_path, SAME["x, y = stacks of one tensor"][0]))
    before, code = batches(module), module.get_batch.__code__
    BatchedWindows().install(installed)
    assert module.get_batch.__code__ is not code
    assert "windows" in module.get_batch.__code__.co_names
    assert all(map(torch.equal, batches(module), before))
    installed.undo()
    assert module.get_batch.__code__ is code


def test_a_function_that_comes_later_is_switched_with_the_model(
    tmp_path: Path, installed: Patch, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = script(tmp_path, SAME["an array"][0])
    main = ModuleType("__main__")
    main.__file__ = str(path)
    monkeypatch.setitem(sys.modules, "__main__", main)
    BatchedWindows().install(installed)  # before the function is there, as at the start of a process
    exec(compile(path.read_text(), str(path), "exec"), vars(main))
    assert "windows" not in main.get_batch.__code__.co_names
    torch.nn.Linear(1, 1)(torch.ones(1, 1))
    assert "windows" in main.get_batch.__code__.co_names


NESTED = """\
import torch

def train(between):
    data, n = torch.arange(1000), 12

    class Source:
        def get(self):
            return torch.stack([data[i : i + n] for i in torch.arange(3)])

    def get_batch():
        return torch.stack([data[i : i + n] for i in torch.randint(900, (4,))])

    torch.manual_seed(0)
    for k in range(3):
        between(k, get_batch, Source.get)
        yield get_batch()

def main(between):
    return list(train(between))
"""


def test_a_function_within_a_running_one_is_switched_too(tmp_path: Path, installed: Patch) -> None:
    path = tmp_path / "train.py"
    path.write_text(NESTED)
    module, gathers = load(path), []

    def between(step: int, *functions: FunctionType) -> None:
        if step == 1:
            BatchedWindows().install(installed)
        elif step == 2:
            installed.undo()
        gathers.append(["windows" in function.__code__.co_names for function in functions])

    with_it = module.main(between)
    assert gathers == [[False, False], [True, True], [False, False]]
    assert all(map(torch.equal, with_it, module.main(lambda *_: None)))
    text = changed(path)
    assert text is not None
    path.write_text(text)
    assert all(map(torch.equal, with_it, load(path).main(lambda *_: None)))


def test_it_is_for_scripts_that_stack_and_wait_for_it() -> None:
    lever, run = BatchedWindows(), run_of(OWN["batched-windows"])
    assert lever.rejects(run, machine()) is None
    assert lever.saves_at_most_s(run, ()) == run.mean_phase_s(Phase.OTHER) != 0.0
    reason = lever.rejects(run_of(SCRIPTS[0]), machine())
    assert reason is not None and "stacks slices" in reason
    idle = run_of(OWN["batched-windows"], phases={Phase.FORWARD: 0.01, Phase.OTHER: 0.0})
    assert "nothing to gain" in str(lever.rejects(idle, machine()))

"""Sums that are read in each step are put off, with the same numbers in the end; what decides anything is left."""

import contextlib
import io
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from textwrap import indent
from types import ModuleType
from typing import Any

import pytest
import torch

from hotlap.levers import Patch
from hotlap.levers.deferred_scalars import Deferred, DeferredScalars
from hotlap.record import Run
from hotlap.source import patch
from tests.conformance.recorded import OWN, run_of
from tests.sample_runs import machine


@pytest.fixture
def installed() -> Iterator[Patch]:
    patch = Patch()
    yield patch
    patch.undo()


SCRIPT = """\
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Linear(5, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = [(torch.randn(7, 5), torch.randint(3, (7,))) for _ in range(9)]
history = []
for epoch in range(2):
    {before}
    for step, (x, y) in enumerate(data):
        optimizer.zero_grad()
        out = model(x)
        loss = nn.functional.cross_entropy(out, y)
        loss.backward()
        optimizer.step()
{inside}
{behind}
print(history)
"""


def script(folder: Path, inside: str, behind: str, before: str = "total, right = 0.0, 0") -> Path:
    path = folder / "train.py"
    text = SCRIPT.replace("{before}", before).replace("{inside}", indent(inside, " " * 8))
    path.write_text(text.replace("{behind}", indent(behind, " " * 4)))
    return path


def on_gpu(path: Path) -> Run:
    return replace(run_of(path), device="NVIDIA H200")


def changed(path: Path) -> str | None:
    """The patched text; None where nothing is changed."""
    return patch(DeferredScalars().edits(on_gpu(path)), root=path.parent).texts.get(str(path))


def printed(text: str, path: str = "train.py", names: dict[str, object] | None = None) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(text, path, "exec"), {} if names is None else names)
    return out.getvalue()


PUT_OFF = {
    "mean of an epoch": ("total += loss.item()", "history.append(total / len(data))"),
    "weighted": ("total += loss.item() * x.size(0)", "print(f'{total / 63:.17f}', total > 3)"),
    "detached first": ("total = total + loss.detach().cpu().item() / 2", "total /= 9\nprint(total, round(total, 3))"),
    "right answers": (
        "_, best = torch.max(out, 1)\nright += (best == y).sum().item()\ntotal += loss.data.item()",
        "print(right, f'{right}', 100 * right / 63, total)",
    ),
    "now and then": (
        "total += loss.item()\nif step % 4 == 3:\n    print('%.9f' % (total / 4))\n    total = 0.0",
        "pass",
    ),
    "a number that is eq": ("right += out.argmax(dim=1).eq(y).sum().item()", "print(right)"),
    "as float": ("total += float(loss.detach())", "print(total, isinstance(total, float))"),
}


@pytest.mark.parametrize(("inside", "behind"), PUT_OFF.values(), ids=PUT_OFF)
def test_the_same_is_printed_to_the_last_bit(tmp_path: Path, inside: str, behind: str) -> None:
    path = script(tmp_path, inside, behind)
    new = changed(path)
    assert new is not None and ".item()" not in new and "float(loss.detach())" not in new
    assert printed(new) == printed(path.read_text())


@pytest.mark.parametrize(("inside", "behind"), PUT_OFF.values(), ids=PUT_OFF)
def test_the_trial_prints_the_same_and_does_not_read_in_each_step(
    tmp_path: Path, installed: Patch, monkeypatch: pytest.MonkeyPatch, inside: str, behind: str
) -> None:
    path = script(tmp_path, inside, behind)
    expected = printed(path.read_text())
    main = ModuleType("__main__")
    main.__file__ = str(path)
    monkeypatch.setitem(sys.modules, "__main__", main)
    reads: list[bool] = []
    read = Deferred.value

    def counted(self: Deferred) -> Any:
        reads.append(True)
        return read(self)

    monkeypatch.setattr(Deferred, "value", counted)
    DeferredScalars().install(installed)
    text = path.read_text().replace("isinstance(total, float)", "True")
    assert printed(text, str(path), vars(main)) == expected
    assert 0 < len(reads) < 18, "two epochs of nine steps"


LEFT = {
    "read in each step": ("total += loss.item()\nprint(total)", "pass"),
    "decides": ("total += loss.item()\nif total > 100:\n    break", "pass"),
    "decides at last": ("total += loss.item()\nif step == 5 and total > 100:\n    break", "pass"),
    "another wait beside it": ("total += loss.item()\nhistory.append(loss.item())", "print(total)"),
    "divides a count": ("right += (out.argmax(1) == y).sum().item() / 7", "print(right)"),
    "made whole behind the loop": ("right += (out.argmax(1) == y).sum().item()", "right /= 63"),
    "not of the loss": ("total += other.item()", "print(total)"),
    "a function reads it": ("total += loss.item()", "show = lambda: total"),
    "seen by name": ("total += loss.item()", "print(locals()['total'])"),
    "begins as something else": ("total += loss.item()", "total = x"),
    "no sum": ("last = loss.item()", "print(last)"),
    "an extremum": ("total = max(total, loss.item())", "print(total)"),
    "compared on the host": ("right += (out.argmax(1).cpu() == y).sum().item()", "print(right)"),
}


@pytest.mark.parametrize(("inside", "behind"), LEFT.values(), ids=LEFT)
def test_what_is_used_otherwise_is_left_alone(tmp_path: Path, inside: str, behind: str) -> None:
    path = script(tmp_path, inside, behind)
    assert changed(path) is None
    reason = DeferredScalars().rejects(on_gpu(path), machine())
    assert reason is not None and "only to add it up" in reason


def test_it_is_for_devices_that_are_waited_for() -> None:
    run = run_of(OWN["deferred-scalars"])
    reason = DeferredScalars().rejects(run, machine())
    assert reason is not None and "on the CPU" in reason
    assert DeferredScalars().rejects(replace(run, device="NVIDIA H200"), machine()) is None
    reason = DeferredScalars().rejects(replace(run, device="mps"), machine())
    assert reason is not None and "float64" in reason


def test_a_put_off_number_is_a_number() -> None:
    one: Any = Deferred(torch.tensor(1.5).double())
    three: Any = Deferred(torch.tensor(3))
    assert isinstance(0.0 + one + 2, Deferred)
    assert float(one + one) == 3.0
    assert (one * 2 - 1, one / 2 < 1, 3 / one, -one, round(one), str(one)) == (2.0, True, 2.0, -1.5, 2, "1.5")
    assert (int(three), three / 2, f"{three:03d}", three == 3, bool(three)) == (3, 1.5, "003", True, True)
    assert (one.is_integer(), three.bit_length()) == (False, 2)

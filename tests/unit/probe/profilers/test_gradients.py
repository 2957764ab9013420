"""The profiler of gradients: what it notes of a line, and that it takes itself off. (What a lever makes of it is tested
with the lever.)"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import nn

from hotlap.levers.lever import Patch
from hotlap.probe.guard import Guard
from hotlap.probe.profilers.gradients import Gradients
from hotlap.probe.session import Session
from tests.gradient_runs import Stage, observed


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage, patch = Stage(), Patch()
    profiler = stage.profiler = Gradients()  # type: ignore[attr-defined]
    profiler.under(Guard(), profiler.close)
    profiler.install(cast(Session, stage), patch)
    yield stage
    patch.undo()


def train(stage: Stage, *, steps: int) -> None:
    """A generator through its critic."""
    generator, critic = nn.Linear(2, 3), nn.Linear(3, 1)
    optimizers = [torch.optim.SGD(net.parameters(), lr=0.1) for net in (generator, critic)]
    for _ in range(steps):
        optimizers[0].zero_grad()
        critic(generator(torch.ones(1, 2))).sum().backward()
        optimizers[0].step()
        optimizers[1].zero_grad()
        critic(torch.ones(1, 3)).sum().backward()
        optimizers[1].step()
        stage.steps += 1


def test_a_line_is_noted_with_the_optimizers_that_need_it(stage: Stage) -> None:
    train(stage, steps=6)
    cast(Any, stage).profiler.fields()
    backward, *steps = stage.facts.call_sites
    assert backward.calls == "backward"
    assert {key: backward.detail[key] for key in ("needs", "unneeded", "elements")} == {
        "needs": "0",
        "unneeded": 4,
        "elements": 13,
    }
    assert [(site.calls, site.detail) for site in steps] == [
        ("optimizer.step", {"steps": 0}),
        ("optimizer.step", {"steps": 1}),
    ]


def test_after_its_steps_it_hears_nothing_any_more(stage: Stage) -> None:
    heard = torch.Tensor.backward
    train(stage, steps=40)
    assert torch.Tensor.backward is not heard
    assert [site.calls for site in stage.facts.call_sites].count("backward") == 1
    cast(Any, stage).profiler.fields()
    assert [site.calls for site in stage.facts.call_sites].count("backward") == 1


def test_too_few_steps_show_nothing(stage: Stage) -> None:
    train(stage, steps=2)
    cast(Any, stage).profiler.fields()
    assert stage.facts.call_sites == []


def test_an_error_of_ours_is_not_the_scripts_and_nothing_is_claimed(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(stage, steps=6)

    def fails() -> None:
        raise RuntimeError("ours")

    monkeypatch.setattr(stage.facts, "optimizers", fails)
    train(stage, steps=6)
    cast(Any, stage).profiler.fields()
    assert stage.facts.call_sites == []


def test_a_backward_pass_that_fails_fails_as_it_would(stage: Stage) -> None:
    with pytest.raises(RuntimeError, match="does not require grad"):
        torch.ones(1).backward()  # type: ignore[no-untyped-call]
    train(stage, steps=6)
    cast(Any, stage).profiler.fields()
    assert stage.facts.call_sites


def test_a_script_that_trains_one_network_has_no_such_line(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(
        "import torch\n"
        "net = torch.nn.Linear(2, 1)\n"
        "optimizer = torch.optim.Adam(net.parameters())\n"
        "for _ in range(6):\n"
        "    optimizer.zero_grad()\n"
        "    net(torch.ones(4, 2)).sum().backward()\n"
        "    optimizer.step()\n"
    )
    assert observed(path).call_sites == ()

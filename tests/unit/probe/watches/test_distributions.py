"""The checks of torch.distributions: counted by line, and only in the window."""

from typing import Any

import pytest
import torch
from torch.distributions import Categorical, Distribution

from hotlap.levers.lever import Patch
from hotlap.probe.watches.distributions import Distributions
from hotlap.record import Sighting
from tests.unit.probe.watches.stage import play


@pytest.fixture(autouse=True)
def checks_are_on(monkeypatch: pytest.MonkeyPatch) -> object:
    """As at the start of a script: Dynamo switches them off as soon as anything has imported it."""
    monkeypatch.setattr(Distribution, "_validate_args", True)
    before = vars(Distribution)["__init__"], vars(Distribution)["_validate_sample"]
    yield
    assert (vars(Distribution)["__init__"], vars(Distribution)["_validate_sample"]) == before


def draw() -> None:
    chosen: Any = Categorical(torch.tensor([0.25, 0.75]))
    chosen.log_prob(chosen.sample())
    chosen.log_prob(torch.tensor(1))


def seen(watch: Distributions) -> list[Sighting]:
    return sorted(play(watch, draw)["sightings"], key=lambda one: one.line or 0)


def test_the_lines_that_make_checks_are_told_with_their_part_of_the_step() -> None:
    watch, patch = Distributions(), Patch()
    watch.install(None, patch)  # type: ignore[arg-type] # it needs nothing of a session
    draw()  # before the window: a distribution was made, so there is something to look at
    patch.undo()
    made, first, second = seen(watch)
    assert (made.what, made.text) == ("Categorical", "chosen: Any = Categorical(torch.tensor([0.25, 0.75]))")
    assert first.what == second.what == "a value given to Categorical"
    assert made.per_step == first.per_step == second.per_step == 1
    shares = [float(one.detail["share"] or 0) for one in (made, first, second)]
    assert min(shares) > 0
    assert sum(shares) < 1


def test_a_script_without_distributions_gives_no_step_away() -> None:
    steps: list[int] = []
    assert play(Distributions(), lambda: steps.append(1)) == {"sightings": ()}
    assert not steps


def test_checks_that_are_switched_off_are_none() -> None:
    watch, patch = Distributions(), Patch()
    watch.install(None, patch)  # type: ignore[arg-type]
    Distribution.set_default_validate_args(False)
    draw()
    patch.undo()
    assert seen(watch) == []

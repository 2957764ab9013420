"""The look at each operator: what belongs to the model, and the plain steps beside."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import torch

from hotlap.probe.profilers import calls
from hotlap.probe.profilers.calls import Calls, _Prices
from hotlap.record import CallFacts, Phase, PhaseCalls, Sighting, SightingKind
from tests.unit.probe.profilers.stage import Stage, play

WEIGHT = torch.ones(4, requires_grad=True)


def seen(step: object, *, stage: Stage | None = None) -> CallFacts:
    assert callable(step)
    found = play(Calls(), step, stage=stage, num_steps=Calls.num_steps)["calls"]
    assert isinstance(found, CallFacts)
    return found


def test_reading_a_loss_is_the_scripts_and_computing_it_the_models() -> None:
    loss = (WEIGHT * 2).sum()

    def logs() -> None:
        for _ in range(5):
            loss.item()
            (loss > 1).any()
        loss.argmax()
        loss.detach()

    def computes() -> None:
        (WEIGHT * 2).sum()

    assert seen(logs).phases[Phase.OTHER].graph_calls == 0
    assert seen(logs).phases[Phase.OTHER].calls == 17
    assert seen(computes).phases[Phase.OTHER].graph_calls == 2


def test_updates_by_hand_are_the_models_and_metrics_without_gradients_are_not() -> None:
    def step() -> None:
        with torch.no_grad():
            WEIGHT.mul_(1.0)
            WEIGHT.softmax(0).sum()

    found = seen(step).phases[Phase.OTHER]
    assert (found.graph_calls, found.calls) == (1, 3)


def test_every_other_step_is_a_plain_one_and_its_time_is_kept() -> None:
    stage = Stage()
    made: list[int] = []

    def step() -> None:
        made.append(len(torch.utils._python_dispatch._get_current_dispatch_mode_stack()))
        stage.clock.now = Phase.FORWARD
        torch.ones(3)
        stage.clock.last_spent = [0.0, 0.0, float(len(made)), *[0.0] * 5]

    found = seen(step, stage=stage)
    assert made == [0, 1] * 5
    assert found.phases[Phase.FORWARD].calls == 1
    assert found.plain_s[Phase.FORWARD] == 5.0, "the median of steps 1, 3, 5, 7, 9"


def test_steps_with_a_validation_are_left_out() -> None:
    stage = Stage()
    made: list[None] = []

    def step() -> None:
        made.append(None)
        validates = len(made) in (3, 4)  # a plain one, and one that is looked at
        for _ in range(50 if validates else 1):
            torch.ones(3)
        stage.validated((0.0, 1.0) if validates else None)
        stage.clock.last_spent = [9.0 if validates else 1.0] * 8

    found = seen(step, stage=stage)
    assert found.phases[Phase.OTHER].calls == 1
    assert found.plain_s[Phase.OTHER] == 1.0


def test_nothing_is_told_of_compiled_code() -> None:
    stage = Stage()
    stage.facts.compiled = True
    assert play(Calls(), lambda: None, stage=stage) == {}


def test_lines_know_what_their_operators_take_and_that_of_metrics_is_the_scripts() -> None:
    large = torch.ones(600, 600)

    def step() -> None:
        (WEIGHT.sum() * large).sum()  # the loss
        torch.mm(large, large)  # a metric

    def looked_at(phase: Phase) -> PhaseCalls:
        stage = Stage()
        stage.clock.now = phase
        return seen(step, stage=stage).phases[phase]

    def lines(phase: Phase) -> Mapping[str, float]:
        return looked_at(phase).lines

    loss, metric = (f"{__file__}:{step.__code__.co_firstlineno + line}" for line in (1, 2))
    assert set(lines(Phase.OTHER)) == {loss}
    assert set(lines(Phase.FORWARD)) == set(lines(Phase.BACKWARD)) == {loss, metric}
    assert lines(Phase.OPTIMIZER) == {}
    assert lines(Phase.FORWARD)[metric] > 0
    made = looked_at(Phase.FORWARD)
    assert made.line_calls == {loss: 3, metric: 1}
    assert 0 < made.graph_inside_s < made.inside_s, "of the loss alone"


def test_lines_of_a_backward_pass_that_is_written_by_hand_know_their_operators() -> None:
    stage = Stage()

    class Loop(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, values: torch.Tensor) -> torch.Tensor:
            return values * 2

        @staticmethod
        def backward(ctx: object, *gradients: torch.Tensor) -> torch.Tensor:
            return torch.stack([row * 2 for row in gradients[0].unbind()])  # one by one

    def step() -> None:
        loss = Loop.apply(WEIGHT).sum()  # type: ignore[no-untyped-call]
        stage.clock.now = Phase.BACKWARD
        loss.backward()
        stage.clock.now = Phase.OTHER

    lines = seen(step, stage=stage).phases[Phase.BACKWARD].line_calls
    (number,) = [
        i for i, line in enumerate(Path(__file__).read_text().splitlines(), 1) if line.endswith("# one by one")
    ]
    assert lines[f"{Path(__file__).resolve()}:{number}"] >= 5


def test_what_the_script_computes_beside_its_model_is_no_memory_of_the_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "_copy_rate", lambda: 1.0)  # at whatever pace
    large = torch.ones(4 << 20)

    def streams(stage: Stage, phase: Phase) -> float:
        def step() -> None:
            stage.clock.now = phase
            large + 1

        return seen(step, stage=stage).phases[phase].streaming_s

    assert streams(Stage(), Phase.FORWARD) > 0
    assert streams(Stage(), Phase.OTHER) == 0


def test_a_line_whose_operators_differ_in_size_takes_what_all_of_them_take() -> None:
    """One of three is large: their median says nothing of it."""
    stage, large, small = Stage(), torch.ones(900, 900), torch.ones(8, 8)
    stage.clock.now = Phase.FORWARD

    def step() -> None:
        for one in (small, large, small):
            one @ one

    found = seen(step, stage=stage).phases[Phase.FORWARD]
    (line_s,) = found.lines.values()
    assert line_s > 0.5 * found.arithmetic_s > 0


def test_float64_that_creeps_into_a_model_is_told_with_its_line() -> None:
    large, scale = torch.ones(600, 600, requires_grad=True), torch.full((600,), 2.0, dtype=torch.float64)

    def step() -> None:
        scaled = large / scale  # here
        scaled.exp()
        large.detach() / scale  # a metric

    found = play(Calls(), step, num_steps=Calls.num_steps)
    (one,) = (one for one in found["sightings"] if one.kind is SightingKind.PROMOTED)
    assert (one.text, one.what, one.per_step) == ("scaled = large / scale  # here", "aten::div", 1.0)
    calls = found["calls"].phases[Phase.OTHER]
    assert 0 < calls.double_s == calls.graph_s


def of_kind(kind: SightingKind, step: Callable[[Stage], object]) -> list[Sighting]:
    stage = Stage()
    found = play(Calls(), lambda: step(stage), stage=stage, num_steps=Calls.num_steps)
    assert "notes" not in found or not found["notes"]
    return [one for one in found["sightings"] if one.kind is kind]


def test_what_is_made_of_the_same_data_in_each_step_is_told_with_its_line() -> None:
    positions, weight = torch.rand(500, 3), torch.ones(500, 500, requires_grad=True)
    buffer = torch.ones(500, 500)

    def step(stage: Stage) -> None:
        near = torch.cdist(positions, positions).softmax(1)  # here
        (near @ weight).sum()
        torch.rand(500, 500).softmax(1)
        torch.isfinite(torch.rand(500, 500)).all()  # the same of other data
        buffer.fill_(1.0)
        buffer.clone()

    found = of_kind(SightingKind.UNCHANGED, step)
    assert {one.text for one in found} == {"near = torch.cdist(positions, positions).softmax(1)  # here"}
    assert found[0].cost_s and found[0].detail == {"phase": "other", "steps": 5}


def test_of_tiny_operators_that_are_the_same_the_call_counts_and_not_the_look() -> None:
    prices = _Prices(lambda: Phase.OTHER, bytes_per_s=1e9)
    prices._price_s, prices._call_s = 1e6, 1e-9
    kept = torch.ones(4)
    for _ in range(3):
        with prices.mode:
            kept + kept
        prices.end_step(counts=True)
    (one,) = (one for one in prices.sightings() if one.kind is SightingKind.UNCHANGED)
    assert one.cost_s == 1e-9


def test_what_is_filled_for_what_is_the_same_counts_with_it_and_what_may_be_written_to_does_not() -> None:
    ones, weight = torch.arange(500), torch.ones(500, 500, requires_grad=True)
    buffer, kept = torch.ones(500, 500), torch.rand(500, 500)

    def step(stage: Stage) -> None:
        near = torch.zeros(500, 500)  # same
        near[ones] = 1.0  # same
        near = near.clone() + kept  # same
        (near @ weight).sum()
        state = torch.zeros(500, 500)
        state.add_(torch.rand(500, 500))
        torch.zeros(500, 500) @ weight
        buffer.zero_()
        (buffer + kept) @ weight  # the sum alone
        stage.clock.now = Phase.BACKWARD
        late = torch.zeros(500, 500)
        stage.clock.now = Phase.OTHER
        late + kept  # the sum alone
        passed = torch.ones(500, 500)
        passed + kept  # the sum alone
        stage.clock.now = Phase.OPTIMIZER
        passed.mul_(2.0)
        stage.clock.now = Phase.OTHER

    found = of_kind(SightingKind.UNCHANGED, step)
    names = {(one.what, one.text.partition("# ")[2]) for one in found if one.cost_s}
    assert {what for what, where in names if where == "same"} == {
        *("aten::zeros", "aten::lift_fresh", "aten::index_put_", "aten::clone", "aten::add")
    }
    assert {one for one in names if one[1] != "same"} == {("aten::add", "the sum alone")}


def test_nothing_is_told_of_a_fork_which_has_none_of_its_parents_threads() -> None:
    stage = Stage()
    stage.shutdown.is_fork = True
    assert play(Calls(), lambda: torch.ones(3), stage=stage) == {}


def multiplied(data: torch.Tensor, weight: torch.Tensor) -> list[Sighting]:
    """What is told of `data @ weight` and its gradient, where both are looked at."""
    stage = Stage()

    def step() -> None:
        stage.clock.now = Phase.FORWARD
        made = data @ weight
        stage.clock.now = Phase.BACKWARD
        torch.autograd.backward(made.sum(), retain_graph=True)

    told: tuple[Sighting, ...] = play(Calls(), step, stage=stage, num_steps=Calls.num_steps)["sightings"]
    return [one for one in told if one.kind is SightingKind.ZEROS]


def test_products_with_data_that_are_nearly_all_zeros_are_told_with_their_line_and_their_gradients() -> None:
    words = torch.zeros(64, 2000)
    words[:, ::100] = 1.0
    found = multiplied(words, torch.ones(2000, 16, requires_grad=True))
    assert {str(one.detail["phase"]) for one in found} == {"forward", "backward"}
    assert {(one.text, one.detail["filled"]) for one in found} == {("made = data @ weight", 0.01)}
    assert all(one.cost_s is not None and one.cost_s > 0 for one in found)


def test_dense_data_results_of_the_model_and_small_matrices_are_no_zeros() -> None:
    weight = torch.ones(2000, 16, requires_grad=True)
    words = torch.zeros(64, 2000)
    assert multiplied(words, weight) == [], "nothing is in it yet"
    words[:, ::100] = 1.0
    assert multiplied(words[:8].clone(), weight) == []
    assert multiplied(words + 0.1, weight) == []
    assert multiplied(words * torch.ones(2000, requires_grad=True), weight) == [], "an activation"

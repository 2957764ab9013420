"""What the tracer follows and what it refuses, without the native core."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import nn

from hotlap.small.program import Op, Unsupported
from hotlap.small.trace import trace_field, trace_model


def ops(program: Any) -> list[str]:
    return [node.op.name for node in program.nodes]


def test_a_sequential_becomes_its_layers() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 7), nn.ReLU(), nn.Linear(7, 2))
    program = trace_model(model)
    assert ops(program) == ["LINEAR", "RELU", "LINEAR"]
    assert program.values[program.input] == (4, False)
    assert [p.shape for p in program.parameters] == [p.shape for p in model.parameters()]


def test_dropout_is_left_out_while_evaluating() -> None:
    model = nn.Sequential(nn.Linear(4, 7), nn.Dropout(0.5)).eval()
    assert ops(trace_model(model)) == ["LINEAR"]


def test_the_users_tensors_are_read_where_they_lie() -> None:
    model = nn.Sequential(nn.Linear(4, 7))
    assert trace_model(model).parameters[0] is model[0].weight


class Lorenz(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.sigma = nn.Parameter(torch.tensor(10.0))

    def forward(self, t: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        x, y, z = u.unbind(-1)
        return torch.stack([self.sigma * (y - x), x * (28.0 - z) - y, x * y - 8 / 3 * z], dim=-1)


@pytest.mark.parametrize("shape", [(3,), (5, 3), (2, 5, 3)])
def test_hand_written_equations_are_followed(shape: tuple[int, ...]) -> None:
    program = trace_field(Lorenz(), torch.zeros(shape))
    assert ops(program).count("PLACE") == 6  # three columns read, three written
    assert program.values[program.output][0] == 3


def test_a_function_with_a_constant_matrix_is_a_linear_layer() -> None:
    matrix = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])
    program = trace_field(lambda t, y: torch.mm(y**3, matrix), torch.zeros(1, 2))
    assert ops(program) == ["POWER", "LINEAR"]
    assert torch.equal(program.parameters[0], matrix.T)


def test_a_function_may_call_a_module_from_outside() -> None:
    net = nn.Linear(3, 3)
    program = trace_field(lambda t, y: torch.tanh(net(y)) * torch.sin(t), torch.zeros(3))
    assert ops(program) == ["LINEAR", "TANH", "SIN", "MUL"]
    assert program.parameters[0] is net.weight


class Branch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.net(x) if x.sum() > 0 else x
        return out


class Sideways(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.net(x) * self.net(x)[:, 0]
        return out


class InPlace(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z = self.net(x)
        out: torch.Tensor = F.relu(z, inplace=True) + z
        return out


class InPlaceByTheWay(InPlace):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z: torch.Tensor = self.net(x)
        F.relu(z, True)
        return z


with torch.inference_mode():
    UNWATCHED = nn.Sequential(nn.Linear(3, 3))


@pytest.mark.parametrize(
    ("model", "word"),
    [
        (UNWATCHED, "inference mode"),
        (Branch(), "cannot follow"),
        (Sideways(), "across the batch"),
        (InPlace(), "in place"),
        (InPlaceByTheWay(), "in place"),
        (nn.Sequential(nn.Linear(3, 3), nn.Softmax(-1)), "Softmax"),
        (nn.Sequential(nn.Tanh()), "no Linear layer"),
        (nn.Sequential(nn.Linear(3, 4), nn.Linear(5, 6)), "takes 5 features"),
    ],
)
def test_what_is_not_known_is_named(model: nn.Module, word: str) -> None:
    with pytest.raises(Unsupported, match=word):
        trace_model(model)


@pytest.mark.parametrize("of", [torch.exp, torch.Tensor.item, torch.Tensor.detach, float, lambda rate: 2 * (rate > 0)])
def test_a_value_calculated_of_a_trained_tensor_alone_is_refused(of: Any) -> None:
    def field(rate: torch.Tensor, of: Any) -> Any:
        return lambda t, y: y * of(rate)

    for rate in (nn.Parameter(torch.tensor(0.5)), torch.tensor(0.5, requires_grad=True)):
        assert ops(trace_field(field(rate, lambda same: same), torch.zeros(3))) == ["PARAMETER", "MUL"]
        with pytest.raises(Unsupported, match="of a trained tensor alone"):
            trace_field(field(rate, of), torch.zeros(3))


@pytest.mark.parametrize(
    "slope",
    [
        lambda y: torch.ones(3),  # the same for all rows
        lambda y: y[:, 0],
        lambda y: y @ torch.eye(3, dtype=torch.float64),
    ],
)
def test_a_slope_of_another_shape_or_type_than_the_state_is_refused(slope: Any) -> None:
    with pytest.raises(Unsupported, match=r"returns|float64"):
        trace_field(lambda t, y: slope(y), torch.zeros(2, 3))


def test_hooks_are_refused() -> None:
    model = nn.Sequential(nn.Linear(3, 3))
    model[0].register_forward_hook(lambda *_: None)
    with pytest.raises(Unsupported, match="hooks"):
        trace_model(model)
    with pytest.raises(Unsupported, match="hooks"):
        trace_field(lambda t, y: model(y), torch.zeros(3))


def test_the_numbers_of_operations_are_those_of_the_core() -> None:
    from pathlib import Path

    header = Path(__file__).parents[3] / "native" / "small" / "program.hpp"
    text = header.read_text()
    for op in Op:
        assert f"{op.name.lower()} = {int(op)}," in text

"""Errors about tensors on two devices, explained: real ones with the meta device, and the words of others."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from hotlap.probe.mismatch import explain, is_mismatch


def told(script: Callable[[], object]) -> str:
    """What is told about the error that `script` raises."""
    with pytest.raises(RuntimeError) as caught:
        script()
    return "\n".join(explain(caught.value))


@pytest.mark.parametrize(
    "text",
    [
        "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! (when checking "
        "argument for argument mat1 in method wrapper_CUDA_addmm)",
        "Expected all tensors to be on the same device, but got mat1 is on cpu, different from other tensors on cuda:0 "
        "(when checking argument in method wrapper_CUDA_addmm)",
        "Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same or input should be "
        "a MKLDNN tensor and weight is a dense tensor",
        "Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same",
        "indices should be either on cpu or on the same device as the indexed tensor (cuda:0)",
        "Tensor for argument #2 'mat2' is on CPU, but expected it to be on GPU (while checking arguments for addmm)",
        "Input and parameter tensors are not at the same device, found input tensor at cpu and parameter tensor at "
        "cuda:0",
        "Input and hidden tensors are not at the same device, found input tensor at cuda:0 and hidden tensor at cpu",
        "module must have its parameters and buffers on device cuda:0 (device_ids[0]) but found one of them on device: "
        "cpu",
        "Unhandled FakeTensor Device Propagation for aten.add.Tensor, found two different devices cuda:0, cpu",
        "Expected a 'cuda' device type for generator but found 'cpu'",
        "Tensor on device cpu is not on the expected device meta!",
    ],
)
def test_all_the_words_that_torch_has_for_it_are_known(text: str) -> None:
    assert is_mismatch(RuntimeError(text))
    assert explain(RuntimeError(text)) == ()  # raised nowhere: there is nothing to tell


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("mat1 and mat2 shapes cannot be multiplied (4x3 and 4x3)"),
        RuntimeError("CUDA error: device-side assert triggered"),
        RuntimeError("Input type (float) and bias type (c10::Half) should be the same"),
        KeyError("device"),
    ],
)
def test_other_errors_are_not_explained(error: Exception) -> None:
    assert explain(error) == ()


def test_an_input_that_was_left_behind_is_named_with_the_line_that_made_it() -> None:
    def script() -> None:
        model = nn.Linear(3, 2, device="meta")
        x = torch.ones(4, 3)
        model(x)

    text = told(script)
    assert "Tensors on different devices met at test_mismatch.py:" in text
    assert "(`model(x)`)" in text
    assert "All parameters and buffers of model are on meta." in text
    assert "`x` (float32, 4x3) is on cpu, from test_mismatch.py:" in text
    assert "(`x = torch.ones(4, 3)`)" in text
    assert "`x = x.to('meta')`" in text


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(3, 3)
        self.middle = nn.Linear(3, 3)
        self.head = nn.Linear(3, 2)
        self.scale = torch.ones(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.head(self.middle(self.body(x)) * self.scale)
        return result


def test_a_layer_that_was_left_behind_is_named() -> None:
    model = Network().to("meta")
    model.scale = torch.ones(3, device="meta")
    model.head = nn.Linear(3, 2)
    text = told(lambda: model(torch.ones(1, 3, device="meta")))
    assert "model.head.weight, model.head.bias are on cpu, most of model is on meta." in text
    assert "`model.to('meta')`" in text


def test_a_plain_attribute_that_is_not_moved_is_told_with_its_cure() -> None:
    model = Network().to("meta")
    text = told(lambda: model(torch.ones(1, 3, device="meta")))
    assert "model.scale is on cpu, most of model is on meta. It is a plain attribute" in text
    assert "register_buffer" in text


def test_without_a_model_both_tensors_are_told() -> None:
    def script() -> None:
        a = torch.ones(3)
        b = torch.ones(3, device="meta")
        b + a

    text = told(script)
    assert "`a` (float32, 3) is on cpu, from test_mismatch.py:" in text
    assert "`b` (float32, 3) is on meta, from test_mismatch.py:" in text


def test_an_error_that_a_framework_wrapped_is_found() -> None:
    def script() -> None:
        try:
            nn.Linear(3, 2, device="meta")(torch.ones(4, 3))
        except RuntimeError as error:
            raise RuntimeError("training failed") from error

    assert "are on meta" in told(script)


def test_a_tensor_that_lies_about_itself_breaks_nothing() -> None:
    class Liar(nn.Module):
        def named_parameters(self, *args: object, **kwargs: object) -> object:  # type: ignore[override]
            raise ValueError("no")

        def forward(self) -> None:
            raise RuntimeError("Expected all tensors to be on the same device, but found at least two devices")

    assert "could not be found out (ValueError)" in told(Liar())

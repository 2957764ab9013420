"""A pass over the largest batch before training leaves nothing behind but memory."""

import random

import numpy as np
import pytest
import torch
from torch import nn

from hotlap.data import preallocate
from hotlap.data.room import rehearse


class Noisy(nn.Module):
    """Batch normalisation, dropout, and numbers of Python's and NumPy's own."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2))
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.layers(x) * random.random() * float(np.random.rand())  # type: ignore[no-any-return]


def state(model: nn.Module) -> list[object]:
    values = [*model.state_dict().values(), torch.get_rng_state()]
    draws = np.random.get_state(legacy=False)["state"]["key"]
    return [random.getstate(), draws.tolist(), *(value.tolist() for value in values)]


def test_nothing_is_left_behind() -> None:
    model = Noisy()
    before = state(model)
    rehearse(model, torch.zeros(16, 4))
    assert model.calls == 1
    assert state(model) == before
    assert all(parameter.grad is None for parameter in model.parameters())


def test_gradients_that_are_there_are_kept() -> None:
    model = Noisy()
    model(torch.ones(4, 4)).sum().backward()
    before = [parameter.grad for parameter in model.parameters()]
    kept = [gradient.clone() for gradient in before if gradient is not None]
    rehearse(model, torch.zeros(16, 4))
    assert all(one is other.grad for one, other in zip(before, model.parameters(), strict=True))
    assert all(torch.equal(one, other) for one, other in zip(kept, before, strict=True) if other is not None)


def test_it_goes_backward_through_all_layers_unseen_by_those_who_count(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    model = Noisy()
    model.layers[1].register_full_backward_hook(lambda *_: seen.append("layer"))
    monkeypatch.setattr(torch.autograd, "backward", lambda *_, **__: seen.append("backward"))
    monkeypatch.setattr(torch.autograd, "grad", lambda *_, **__: seen.append("grad"))
    rehearse(model, torch.zeros(16, 4))
    assert seen == ["layer"]


def test_buffers_are_put_back_after_an_error_too() -> None:
    model = Noisy()
    before = state(model)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        rehearse(model, torch.zeros(16, 5))
    assert state(model) == before


def test_without_gradients_asked_for_it_still_goes_backward() -> None:
    model, seen = Noisy(), []
    model.layers[1].register_full_backward_hook(lambda *_: seen.append("layer"))
    with torch.no_grad():
        rehearse(model, torch.zeros(16, 4))
    assert seen == ["layer"]


def test_a_model_on_the_cpu_is_left_alone() -> None:
    model = Noisy()
    preallocate(model, (16, 4))
    assert model.calls == 0


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_allocator_keeps_what_the_largest_batch_needs() -> None:
    model = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 1)).cuda()
    torch.cuda.empty_cache()
    preallocate(model, (4096, 1024))
    reserved = torch.cuda.memory_reserved()
    model(torch.zeros(4096, 1024, device="cuda")).sum().backward()
    for parameter in model.parameters():
        parameter.grad = None
    assert torch.cuda.memory_reserved() <= 1.5 * reserved

"""Copies that block, on a device that every machine has."""

from collections.abc import Callable

import pytest
import torch

from hotlap import accelerator
from hotlap.probe.profilers.syncs import Syncs
from hotlap.record import Sighting, SightingKind
from tests.unit.probe.profilers.stage import Stage, play

pytestmark = pytest.mark.usefixtures("doubles")

DEVICE, HOST = torch.float64, torch.float32


def sightings(step: Callable[[], object], *, stage: Stage | None = None, num_steps: int = 4) -> tuple[Sighting, ...]:
    fields = play(Syncs(), step, stage=stage, num_steps=num_steps)
    assert fields["notes"] == ()
    return tuple(one for one in fields["sightings"] if one.kind is not SightingKind.SYNC)


def line_of(text: str) -> int:
    with open(__file__) as file:
        (number,) = [i for i, line in enumerate(file, 1) if text in line and "line_of" not in line]
    return number


def test_a_copy_that_blocks_is_told_with_its_line() -> None:
    def step() -> None:
        noise = torch.randn(10)
        (noise * 2).to(DEVICE)  # moved here

    (found,) = sightings(step)
    assert found.kind is SightingKind.BLOCKING_COPY
    assert found.what == "Tensor.to"
    assert (found.path, found.line) == (__file__, line_of("# moved here"))
    assert found.text.startswith("(noise * 2).to(DEVICE)")
    assert found.per_step == 1
    assert found.num_bytes == 40
    assert found.cost_s is not None
    assert found.cost_s > 0


def test_a_python_number_made_a_tensor_and_moved_is_told() -> None:
    (found,) = sightings(lambda: torch.tensor([1.0, 2.0]).to(DEVICE))
    assert (found.kind, found.num_bytes) == (SightingKind.BLOCKING_COPY, 8)


def test_numpy_arrays_are_data() -> None:
    import numpy as np

    array = np.ones((4, 3), dtype=np.float32)
    found = sightings(lambda: torch.from_numpy(array).to(DEVICE))
    assert [one.kind for one in found] == [SightingKind.BLOCKING_COPY]


def test_a_copy_of_pinned_data_that_does_not_block_is_healthy() -> None:
    batch = torch.randn(4, 3).to(torch.float16)  # counts as pinned here
    assert sightings(lambda: batch.to(DEVICE, non_blocking=True)) == ()
    (found,) = sightings(lambda: batch.to(DEVICE))
    assert found.kind is SightingKind.BLOCKING_COPY


def test_data_that_leave_the_device_and_come_back_are_told_where_they_come_back() -> None:
    weights = torch.ones(10, dtype=DEVICE)

    def step() -> None:
        left = weights.to(HOST)
        left.clamp(0, 1).to(DEVICE)  # comes back here

    (found,) = sightings(step)
    assert found.kind is SightingKind.BLOCKING_COPY
    assert found.line == line_of("# comes back here")


def test_what_only_leaves_the_device_is_no_trip() -> None:
    loss = torch.ones((), dtype=DEVICE)
    assert sightings(lambda: loss.to(HOST).item()) == ()


def test_nothing_is_seen_and_nothing_is_hooked_where_no_device_is_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accelerator, "in_use", lambda: None)
    synchronize = torch.cuda.synchronize
    fields = play(Syncs(), lambda: torch.randn(3).to(DEVICE))
    assert fields == {"sightings": (), "notes": ()}
    assert torch.cuda.synchronize is synchronize


def test_it_takes_everything_off_and_leaves_the_random_stream_alone() -> None:
    from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

    before = dict(vars(torch.Tensor)), dict(vars(torch.cuda))

    def draw() -> torch.Tensor:
        torch.manual_seed(3)
        values = []
        fields = play(Syncs(), lambda: values.append(torch.randn(3)))
        assert fields["sightings"] == ()
        return torch.stack([*values, torch.randn(3)])

    torch.manual_seed(3)
    plain = torch.stack([torch.randn(3) for _ in range(5)])
    assert torch.equal(draw(), plain)
    assert _get_current_dispatch_mode_stack() == []
    assert (dict(vars(torch.Tensor)), dict(vars(torch.cuda))) == before


def test_a_model_trains_under_it_as_it_would_without() -> None:
    def train(watched: bool) -> list[float]:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        losses: list[float] = []

        def step() -> None:
            optimizer.zero_grad()
            loss = model(torch.randn(16, 4)).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())

        if watched:
            play(Syncs(), step)
        else:
            for _ in range(4):
                step()
        return losses

    assert train(watched=True) == train(watched=False)

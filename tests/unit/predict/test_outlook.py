"""Chances, memory and energy predicted."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from hotlap.predict import Workload, forecast, memory, outlook, resolve, trace


@pytest.fixture(scope="module")
def net_step() -> Workload:
    """A step of a small convolutional net with 256 images, traced without data."""
    with torch.device("meta"):
        net = nn.Sequential(
            nn.Conv2d(3, 64, 3), nn.BatchNorm2d(64), nn.ReLU(), nn.Conv2d(64, 128, 3), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10),
        )  # fmt: skip
        images = torch.empty(256, 3, 64, 64)
    optimizer = torch.optim.Adam(net.parameters())

    def step() -> None:
        optimizer.zero_grad()
        net(images).sum().backward()
        optimizer.step()

    return trace.record(step, parameters=net.parameters(), batch=[images])


def test_a_chance_to_be_slower_is_that_of_the_interval(net_step: Workload) -> None:
    step_s = forecast(net_step, target="A100").step_s
    assert outlook.slower_chance(step_s, than_s=step_s.mid) == pytest.approx(0.5)
    assert outlook.slower_chance(step_s, than_s=step_s.high) == pytest.approx(0.1, abs=1e-3)
    assert outlook.slower_chance(step_s, than_s=step_s.low) == pytest.approx(0.9, abs=1e-3)


def test_sharding_holds_less_on_each_gpu(net_step: Workload) -> None:
    big = replace(net_step, parameter_bytes=8e9, gradient_bytes=8e9, optimizer_state_bytes=16e9)
    whole = memory.need(big)
    sharded = memory.need(big, shards=4)
    assert whole is not None and sharded is not None
    assert 0.25 * whole.model < sharded.model < 0.5 * whole.model


def test_the_largest_batch_is_what_the_memory_has_room_for(net_step: Workload) -> None:
    device = resolve("RTX 4090").device
    times = memory.largest_batch_factor(net_step, device)
    assert times is not None and times > 1
    full = memory.need(net_step.scaled(times))
    assert full is not None
    assert full.total == pytest.approx(device.memory, rel=0.01)


def test_energy_goes_with_time_and_count(net_step: Workload) -> None:
    one, two = (forecast(net_step, target="A100", count=count) for count in (1, 2))
    assert outlook.energy_j(two) / outlook.energy_j(one) == pytest.approx(2 * two.step_s.mid / one.step_s.mid)

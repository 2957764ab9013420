"""Levers, memory, energy and price predicted."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from hotlap.predict import Precision, Workload, forecast, memory, outlook, resolve, trace


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


def names(work: Workload, target: str) -> dict[str, outlook.LeverOutlook]:
    return {one.lever: one for one in outlook.levers(work, target=target)}


def test_each_lever_has_an_interval_and_a_chance_to_be_slower(net_step: Workload) -> None:
    found = names(net_step, "RTX 4090")
    assert set(found) == {"bf16", "fp16", "tf32", "compile", "fused-optimizer", "batch-x2"}
    for one in found.values():
        assert one.speedup.low < one.speedup.mid < one.speedup.high
        assert 0 <= one.slower_chance <= 1
    assert list(found) == sorted(found, key=lambda name: -found[name].speedup.mid)


def test_half_precision_gains_most_where_there_are_matrix_units_for_it(net_step: Workload) -> None:
    big = net_step.scaled(64)
    assert names(big, "RTX 4090")["bf16"].speedup.low > 1.1
    assert names(big, "RTX 4090")["bf16"].slower_chance < 0.1
    assert "bf16" not in names(big, "Tesla V100 SXM2 16GB")
    assert "fp16" not in names(big, "GTX 1080 Ti")


def test_a_lever_that_does_little_may_well_be_slower(net_step: Workload) -> None:
    # Eight images: the host sets the pace, and computing faster gains nothing.
    assert names(net_step.scaled(1 / 32), "H100")["tf32"].slower_chance > 0.3


def test_channels_last_is_predicted_for_convolutions_in_half_precision(net_step: Workload) -> None:
    mixed = replace(net_step, precision=Precision.BF16)
    assert names(mixed, "A100")["channels-last"].speedup.mid > 1.0
    assert "channels-last" not in names(net_step, "A100")


def test_what_is_compiled_already_is_not_compiled_again(net_step: Workload) -> None:
    assert "compile" not in names(replace(net_step, compiled=True), "A100")


def test_a_measured_step_that_shows_a_slow_host_makes_batches_worth_more(net_step: Workload) -> None:
    work = net_step.scaled(1 / 64)
    slow = outlook.levers(work, target="RTX 3090", measured=("RTX 3090", 3e-3))
    fast = outlook.levers(work, target="RTX 3090", measured=("RTX 3090", 3e-4))
    gains = [next(one for one in found if one.lever == "batch-x2").speedup.mid for found in (slow, fast)]
    assert gains[0] > gains[1]


def test_sharding_holds_less_on_each_gpu(net_step: Workload) -> None:
    big = replace(net_step, parameter_bytes=8e9, gradient_bytes=8e9, optimizer_state_bytes=16e9)
    whole = memory.need(big)
    sharded = memory.need(big, shards=4)
    assert whole is not None and sharded is not None
    assert 0.25 * whole.model < sharded.model < 0.5 * whole.model
    assert outlook.sharded_bytes(big, shards=4) == sharded.total


def test_the_largest_batch_is_what_the_memory_has_room_for(net_step: Workload) -> None:
    device = resolve("RTX 4090").device
    times = memory.largest_batch_factor(net_step, device)
    assert times is not None and times > 1
    full = memory.need(net_step.scaled(times))
    assert full is not None
    assert full.total == pytest.approx(device.memory, rel=0.01)


def test_energy_and_price_go_with_time_and_count(net_step: Workload) -> None:
    one, two = (forecast(net_step, target="A100", count=count) for count in (1, 2))
    assert outlook.energy_j(two) / outlook.energy_j(one) == pytest.approx(2 * two.step_s.mid / one.step_s.mid)
    hour = replace(one, step_s=replace(one.step_s, mid=1.0))
    assert outlook.price(hour, num_steps=3600, per_hour=2.5) == pytest.approx(2.5)

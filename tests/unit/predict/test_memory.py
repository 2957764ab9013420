"""Memory on a GPU, of a step that was traced."""

import pytest
import torch
from torch import nn

from hotlap.predict import Precision, Workload, memory, resolve, trace


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


def test_the_largest_batch_is_what_the_memory_has_room_for(net_step: Workload) -> None:
    device = resolve("RTX 4090").device
    times = memory.largest_batch_factor(net_step, device)
    assert times is not None and times > 1
    assert memory.need(net_step.scaled(times)) == pytest.approx(device.memory, rel=0.01)


def test_half_precision_has_room_for_more(net_step: Workload) -> None:
    device = resolve("RTX 4090").device
    plain, halved = (memory.largest_batch_factor(net_step, device, precision=one) for one in (None, Precision.BF16))
    assert plain is not None and halved is not None
    assert halved > 1.2 * plain

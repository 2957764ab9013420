"""A device that every machine has, for profilers of what goes to it and comes from it."""

import pytest
import torch

from hotlap import accelerator


@pytest.fixture
def doubles(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in double precision counts as being on it.

    So `.to(torch.float64)` is a copy to the device, and `.to(torch.float32)` one back; all of it happens, with real
    values.
    """
    pinned = torch.float16
    monkeypatch.setattr(accelerator, "in_use", lambda: "double")
    monkeypatch.setattr(accelerator, "on_device", lambda tensor: tensor.dtype is torch.float64)
    monkeypatch.setattr(
        accelerator, "is_pinned", lambda tensor: tensor.dtype is pinned or getattr(tensor, "pinned", False)
    )

"""The look at the input phase leaves data sets as they were."""

from collections.abc import Callable
from typing import Any

import pytest
from torch.utils.data import DataLoader

from hotlap.data import cached_prefix, late
from hotlap.probe.watches.input import Input
from tests.unit.data.pictures import usual


@pytest.mark.parametrize("wrap", [lambda data: data, late, cached_prefix])
def test_a_data_set_behind_ours_gets_its_transform_back(wrap: Callable[[Any], Any]) -> None:
    data = usual()
    transform = data.transform
    watch = Input()
    watch.open()
    try:
        next(iter(DataLoader(wrap(data), 4)))
        assert data.transform is not transform, "it is timed"
    finally:
        watch.close(1)
    assert vars(data)["transform"] is transform

"""Items: compared byte by byte, and looked through for shared memory."""

from enum import Enum
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from hotlap.data.item.compare import entangled, same, shares_memory


class Colour(Enum):
    RED = 1


class Boxes(torch.Tensor):
    """As torchvision's, which is not installed here."""

    __module__ = "torchvision.tv_tensors._bounding_boxes"


def boxes(numbers: list[float], size: tuple[int, int]) -> Any:
    made: Any = torch.tensor(numbers).as_subclass(Boxes)
    made.canvas_size = size
    return made


def grey(info: dict[str, Any]) -> Any:
    picture: Any = Image.new("P", (2, 2))
    picture.info = info
    return picture


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (0.0, -0.0),
        (1, 1.0),
        (1, True),
        ((1, 2), [1, 2]),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (torch.zeros(2), torch.zeros(2, dtype=torch.int32)),
        (torch.tensor(0.0), torch.tensor(-0.0)),
        (torch.zeros(2), torch.zeros(3)),
        (np.zeros(2), np.zeros((2, 1))),
        (np.float32(1), np.float64(1)),
        (object(), object()),
        (boxes([1.0], (2, 3)), boxes([2.0], (2, 3))),
        (boxes([1.0], (2, 3)), boxes([1.0], (3, 2))),
        (boxes([1.0], (2, 3)), torch.tensor([1.0])),
        (grey({"dpi": (72, 72)}), grey({"dpi": (72, 96)})),
    ],
)
def test_what_differs_in_type_or_bytes_is_not_the_same(left: Any, right: Any) -> None:
    assert not same(left, right)


def test_marked_tensors_and_pictures_are_the_same_with_all_that_is_said_of_them() -> None:
    assert same(boxes([1.0], (2, 3)), boxes([1.0], (2, 3)))
    assert same(grey({"dpi": (72, 72)}), grey({"dpi": (72, 72)}))


def test_nan_and_enum_members_are_the_same_as_themselves() -> None:
    assert same(
        (float("nan"), torch.tensor(float("nan")), Colour.RED), (float("nan"), torch.tensor(float("nan")), Colour.RED)
    )


def test_shared_memory_is_found_through_views() -> None:
    whole, array = torch.zeros(10), np.zeros(10)
    assert shares_memory((1, whole[:2]), [whole[5:]])
    assert shares_memory(array[:3], array[4:].reshape(2, 3))
    assert not shares_memory((whole, "x", 1), (whole.clone(), "x", 1))
    assert entangled((whole[:1], whole[1:])) and not entangled((whole, array, 1, 1))

"""Items: compared byte by byte, looked through for shared memory, and as bytes, of which the same comes out anew."""

import sys
from collections.abc import Callable
from enum import Enum
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from hotlap.data.item.codec import CannotKeep, entangled, pack, same, shares_memory, unpack
from tests.unit.data.sets import BUILDS, equal


def picture(mode: str) -> Any:
    from PIL import Image

    made = Image.fromarray(np.arange(48, dtype=np.uint8).reshape(4, 4, 3)).convert(mode)
    made.info["dpi"] = (72, 72)
    return made


@pytest.mark.parametrize("name", BUILDS)
def test_items_of_every_kind_come_out_as_they_were(name: str) -> None:
    item = BUILDS[name](5)
    again = unpack([bytes(part) for part in pack(item)])
    assert equal(again, item)
    assert not shares_memory(again, item)


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA", "P", "1", "I", "F", "CMYK"])
def test_pictures_come_out_as_they_were(mode: str) -> None:
    item = picture(mode)
    again = unpack([bytes(part) for part in pack(item)])
    assert same(again, item) and again is not item
    assert again.info == item.info and again.getpalette() == item.getpalette()
    assert again.convert("RGB").tobytes() == item.convert("RGB").tobytes()


ARRAYS: dict[str, Callable[[], Any]] = {
    "every second": lambda: np.arange(20)[::2],
    "channels first": lambda: np.arange(24).reshape(2, 3, 4).transpose(2, 0, 1),
    "a part of rows": lambda: np.arange(24.0).reshape(4, 6)[1:3, 2:5],
    "texts": lambda: np.array(["a", "bcd"])[::-1][::-1],
    "no rows": lambda: np.empty((0, 3)),
    "one number": lambda: np.array(3.0),
    "read-only": lambda: np.broadcast_to(np.arange(3), (2, 3)),
    "backwards": lambda: np.arange(5)[::-1],
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_come_out_as_copies_of_them(name: str) -> None:
    item = ARRAYS[name]()
    again = unpack([bytes(part) for part in pack(item)])
    assert equal(again, item) and not shares_memory(again, item)


def test_complex_numbers_come_out_as_they_were() -> None:
    assert unpack([bytes(part) for part in pack([1 - 2j])]) == [1 - 2j]


def test_what_comes_out_can_be_written_to_and_reaches_nobody() -> None:
    item = (torch.arange(5.0), np.arange(5))
    parts = [bytes(part) for part in pack(item)]
    tensor, array = unpack(parts)
    tensor.add_(1)
    array += 1
    assert equal(unpack(parts), item)


def test_parts_that_are_one_object_stay_one() -> None:
    tensor = torch.arange(3)
    first, second = unpack(pack((tensor, tensor)))
    assert first is second


class Other:
    pass


STRANGE: dict[str, Callable[[], Any]] = {
    "object": Other,
    "generator": lambda: (i for i in range(3)),
    "gradient": lambda: torch.ones(2, requires_grad=True),
    "sparse": lambda: torch.eye(2).to_sparse(),
    "objects": lambda: np.array([Other()], dtype=object),
}


@pytest.mark.parametrize("name", STRANGE)
def test_what_might_not_come_out_the_same_is_not_packed(name: str) -> None:
    with pytest.raises(CannotKeep):
        pack([STRANGE[name]()])


class Colour(Enum):
    RED = 1


class Boxes(torch.Tensor):
    """As torchvision's, which is not installed here."""

    __module__ = "torchvision.tv_tensors._bounding_boxes"


@pytest.fixture(autouse=True)
def its_boxes(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType(Boxes.__module__)
    module.Boxes = Boxes
    monkeypatch.setitem(sys.modules, Boxes.__module__, module)


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

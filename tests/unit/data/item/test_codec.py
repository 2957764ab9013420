"""Items as bytes: what comes out is new, and the same."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from hotlap.data.item.codec import pack, unpack
from hotlap.data.item.compare import Unsupported, same, shares_memory
from hotlap.data.item_cache.records import SharedRecords
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
    with pytest.raises(Unsupported):
        pack([STRANGE[name]()])


def test_a_bin_keeps_entries_until_it_is_full() -> None:
    held = SharedRecords(4, 4096)
    assert held.put(1, [b"one", b"", b"x" * 100])
    parts = held.get(1)
    assert parts is not None and [bytes(part) for part in parts] == [b"one", b"", b"x" * 100]
    assert held.get(0) is None
    assert not held.put(2, [b"y" * 5000]) and held.get(2) is None
    with pytest.raises(TypeError):
        parts[0][0] = 0

"""Values as bytes and back: all of a value, and nothing that could run."""

import enum
import io
from collections import OrderedDict
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from hotlap.data.items import Unsupported
from hotlap.data.pack_values import Damaged, decode, encode
from tests.unit.data.sets import BUILDS, Pair, equal


def read_only() -> Any:
    array = np.arange(3)
    array.flags.writeable = False
    return array


ODD: dict[str, Any] = {
    "numbers": (2**63, 2**64, -(2**70), 1 - 2j, float("inf")),
    "nothing": [None, (), [], {}, "", b""],
    "half a surrogate pair": "\ud800.png",
    "keys": {"a": 1, 2: (1,), None: 0, b"k": 1, 2.5: [1]},
    "tuples in lists in tuples": (1, [(2, [3]), ()], OrderedDict(b=(1,), a=2)),
    "quarter floats": torch.ones(4, dtype=torch.float8_e4m3fn),
    "large bfloat16": torch.full((2, 3), -0.0, dtype=torch.bfloat16),
    "one number": torch.tensor(3),
    "texts in arrays": (np.array(["a", "bc"]), np.array([b"x"]), np.str_("hey")),
    "dates": (np.datetime64("2020-01-01"), np.array(["2020-02-03"], dtype="datetime64[D]")),
    "other byte order": np.array([1, 2], dtype=">i4"),
    "read only": read_only(),
    "backwards": np.arange(5)[::-1],
    "without elements": np.zeros((0, 2)),
}


def back(value: Any) -> Any:
    found = decode(encode(value))
    assert encode(found) == encode(value)
    return found


@pytest.mark.parametrize("name", [name for name in BUILDS if name != "named"])
@pytest.mark.parametrize("number", [0, 3])
def test_an_item_comes_back_as_it_was(name: str, number: int) -> None:
    item = BUILDS[name](number)
    assert equal(back(item), item)


@pytest.mark.parametrize("name", [name for name in ODD if name != "backwards"])
def test_what_is_odd_comes_back_too(name: str) -> None:
    assert equal(back(ODD[name]), ODD[name])


def test_an_array_that_runs_backwards_comes_back_with_the_strides_of_its_copy() -> None:
    found = back(ODD["backwards"])
    assert found.tolist() == [4, 3, 2, 1, 0]
    assert found.strides == ODD["backwards"].copy().strides


some = settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))

LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.complex_numbers()
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text() | st.integers(), inner, max_size=4)
    ),
    max_leaves=20,
)


@some
@given(value=VALUES)
def test_plain_values_come_back_to_the_bit(value: Any) -> None:
    found = back(value)
    assert type(found) is type(value)
    assert repr(found) == repr(value)


@some
@given(left=VALUES, right=VALUES)
def test_different_values_have_different_bytes(left: Any, right: Any) -> None:
    if repr(left) != repr(right):
        assert encode(left) != encode(right)


def picture(mode: str) -> Any:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    return Image.fromarray(pixels).convert(mode)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "HSV", "I", "F"])
def test_a_picture_comes_back_pixel_for_pixel(mode: str) -> None:
    value = picture(mode)
    found = back(value)
    assert type(found) is Image.Image
    assert (found.mode, found.size, found.tobytes()) == (mode, value.size, value.tobytes())
    assert found.convert("RGBA").tobytes() == value.convert("RGBA").tobytes()  # by its palette, where it has one


def test_a_palette_with_transparency_comes_back() -> None:
    value = Image.new("P", (2, 2))
    value.putpalette(bytes(range(16)), "RGBA")
    assert back(value).convert("RGBA").tobytes() == value.convert("RGBA").tobytes()


def test_what_stood_in_the_file_beside_the_pixels_comes_back() -> None:
    value = picture("RGB")
    value.info = {"dpi": (72, 72), "exif": b"Exif", "jfif_version": (1, 1)}
    assert back(value).info == value.info


def open_picture() -> Any:
    file = io.BytesIO()
    picture("RGB").save(file, "png")
    return Image.open(file)


def knot() -> list[Any]:
    itself: list[Any] = []
    itself.append(itself)
    return itself


class Colour(enum.Enum):
    RED = 1


class Text(str):
    pass


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (Pair(1, 2), "sets.Pair"),
        (Colour.RED, "Colour"),
        (Text("x"), "Text"),
        ({1, 2}, "builtins.set"),
        ({(1, 2): 3}, "a key that is a builtins.tuple"),
        (torch.ones(2, requires_grad=True), "requires a gradient"),
        (torch.ones(2).to_sparse(), "sparse"),
        (torch.nn.Parameter(torch.ones(2), requires_grad=False), "torch.nn.parameter.Parameter"),
        (np.array([object()]), "of object"),
        (np.zeros(2, dtype=[("a", "i4")]), "numpy.ndarray of"),
        (np.longdouble(1), "longdouble"),
        (open_picture(), "picture.copy()"),
        (knot(), "nested too deeply"),
        (print, "builtin_function"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_is_more_than_its_data_is_refused_by_name(value: Any, said: str) -> None:
    with pytest.raises(Unsupported) as refused:
        encode((1, {"deep": [value]}))
    assert said in str(refused.value)


@some
@given(data=st.binary(max_size=60))
def test_other_bytes_are_damaged_or_plain_values(data: bytes) -> None:
    with suppress(Damaged):
        decode(data)


@some
@given(place=st.integers(0, 400), flip=st.integers(1, 255))
def test_changed_bytes_are_damaged_or_plain_values(place: int, flip: int) -> None:
    data = bytearray(encode((picture("P"), torch.arange(6).view(2, 3).T, np.arange(3), {"a": (1, 2**70, 1j)})))
    data[place % len(data)] ^= flip
    with suppress(Damaged):
        decode(bytes(data))

"""hotlap.data.checks.look: each pixel of a picture counts, wherever Pillow keeps it."""

import pickle

import numpy as np
import pytest
from PIL import Image

from hotlap.data.checks.look import Look

SIZE = (9, 7)
NUMBERS = np.random.default_rng(0).integers(0, 255, (SIZE[1], SIZE[0], 4), np.uint8)
MODES = ("1", "L", "P", "LA", "I", "I;16", "F", "RGB", "RGBA", "CMYK", "YCbCr")


def picture(mode: str) -> Image.Image:
    if mode == "I;16":
        return Image.fromarray(NUMBERS[..., 0].astype(np.uint16) * 251)
    return Image.fromarray(NUMBERS[..., :3]).convert(mode)


def digest(root: object) -> str:
    return Look(root, {}, lambda _: None).digest


@pytest.mark.parametrize("mode", MODES)
def test_a_copy_of_a_picture_is_alike_and_one_of_another_pixel_is_not(mode: str) -> None:
    before = picture(mode)
    other = before.copy()
    assert digest([before]) == digest([other])
    place = (8, 6)
    value = other.getpixel(place)
    assert value is not None
    other.putpixel(place, tuple(255 - one for one in value) if isinstance(value, tuple) else 255 - value)
    assert digest([before]) != digest([other])


@pytest.mark.parametrize("mode", MODES)
def test_a_change_in_place_is_seen(mode: str) -> None:
    pictures = [picture(mode), picture("L")]
    before = digest(pictures)
    assert digest(pictures) == before
    pictures[0].paste(0, (0, 0, 3, 3))
    assert digest(pictures) != before


def test_as_many_pixels_in_another_shape_are_another_picture() -> None:
    row = Image.fromarray(NUMBERS[..., 0].reshape(1, -1))
    assert digest(row) != digest(Image.fromarray(NUMBERS[..., 0].reshape(-1, 1)))


def test_a_picture_in_several_pieces_counts_as_well() -> None:
    """Beyond 16 MB Pillow keeps a picture in several blocks."""
    large = Image.new("RGB", (4096, 1100))
    before = digest(large)
    large.putpixel((4095, 1099), (1, 0, 0))
    assert digest(large) != before


def test_a_long_buffer_that_a_library_pickles_as_it_is_counts_to_its_last_byte() -> None:
    """As those of pyarrow do, in which `datasets` keeps its items."""
    data = bytearray(1 << 18)
    before = digest([pickle.PickleBuffer(data)])
    assert digest([pickle.PickleBuffer(data)]) == before
    data[-1] = 1
    assert digest([pickle.PickleBuffer(data)]) != before

"""Lazy pictures: whatever is done with one, its bytes are those that PIL makes."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch.utils.data import default_collate

from hotlap import native
from hotlap.data.item import pictures
from hotlap.data.item.codec import same
from hotlap.data.item.pictures import LazyPicture, lazy_picture
from hotlap.data.prefix_cache.deferred import in_turn
from tests.unit.data.pictures import ConvertImageDtype, Normalize, PILToTensor, ToTensor

pytestmark = pytest.mark.skipif(pictures._columns_first() is None, reason="the native core does not do as this Pillow")

LENGTHS = st.integers(1, 70)


@st.composite
def crops(draw: Any) -> Any:
    left, top, width, height = (draw(st.floats(0, 1)) for _ in range(4))

    def crop(picture: Any) -> Any:
        x, y = int(left * (picture.width - 1)), int(top * (picture.height - 1))
        right, bottom = x + 1 + int(width * (picture.width - x - 1)), y + 1 + int(height * (picture.height - y - 1))
        return picture.crop((x, y, right, bottom))

    return crop


@st.composite
def steps(draw: Any) -> Any:
    kind = draw(st.sampled_from(["crop", "resize", "flip", "beyond", "turn", "copy"]))
    if kind == "crop":
        return draw(crops())
    if kind == "resize":
        size, resample = (draw(LENGTHS), draw(LENGTHS)), draw(st.sampled_from([None, 0, 1, 2, 3, 4]))
        return lambda picture: picture.resize(size, resample)
    if kind == "flip":
        method = draw(st.sampled_from([Image.Transpose.FLIP_LEFT_RIGHT, Image.Transpose.FLIP_TOP_BOTTOM, 0, 1]))
        return lambda picture: picture.transpose(method)
    if kind == "beyond":
        return lambda picture: picture.crop((-2, 1, picture.width + 1, picture.height + 3))
    return (lambda picture: picture.transpose(2)) if kind == "turn" else (lambda picture: picture.copy())


def both(size: tuple[int, int], channels: int, seed: int) -> tuple[Any, Any]:
    """(PIL's image, a lazy one of the same bytes)."""
    shape = (size[1], size[0]) if channels == 1 else (size[1], size[0], channels)
    values = np.random.default_rng(seed).integers(0, 256, shape, np.uint8)
    if seed % 3 == 0:
        values = np.where(values > 127, 255, 0).astype(np.uint8)  # where a filter of both signs leaves the bytes
    image = Image.fromarray(values)
    image.info = {"dpi": (72, 72)}
    return image, lazy_picture(image.mode, image.size, image.tobytes(), dict(image.info))


@given(st.tuples(LENGTHS, LENGTHS), st.sampled_from([1, 3]), st.integers(0, 9), st.lists(steps(), max_size=5))
def test_a_lazy_picture_is_pils(size: tuple[int, int], channels: int, seed: int, what: list[Any]) -> None:
    image, ours = both(size, channels, seed)
    for step in what:
        image, ours = step(image), step(ours)
        assert (ours.size, ours.mode, ours.info) == (image.size, image.mode, image.info)
    assert np.array_equal(np.array(ours), np.array(image)) and ours.tobytes() == image.tobytes()
    assert ours == image and image == ours and ours.convert("L") == image.convert("L")


@pytest.mark.parametrize("variant", native.VARIANTS)
@given(st.tuples(LENGTHS, LENGTHS), st.tuples(LENGTHS, LENGTHS), st.sampled_from([2, 3]), st.integers(0, 9), crops())
def test_every_variant_resizes_as_pil(
    variant: str, size: tuple[int, int], after: tuple[int, int], resample: int, seed: int, crop: Any
) -> None:
    module = native.load(variant)
    if not module:
        return
    image, ours = both(size, 3, seed)
    made = crop(ours).resize(after, resample)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pictures, "extension", lambda: native.Core(module, variant, ""))
        made._render()
    assert not made._resample and made == crop(image).resize(after, resample)


CONSTANTS = st.lists(st.floats(0.01, 1.0), min_size=3, max_size=3)


@pytest.mark.parametrize("variant", native.VARIANTS)
@given(st.tuples(LENGTHS, LENGTHS), st.integers(1, 5), st.integers(0, 9), CONSTANTS, CONSTANTS, st.lists(steps()))
def test_every_variant_makes_the_numbers_of_torch(
    variant: str, size: tuple[int, int], num_pictures: int, seed: int, mean: Any, std: Any, what: list[Any]
) -> None:
    module = native.load(variant)
    if not module:
        return
    tails: list[list[Any]] = [[ToTensor(), Normalize(mean, std)], [PILToTensor(), ConvertImageDtype(torch.float32)]]
    for last in tails:
        images = [both(size, 3, seed + number) for number in range(num_pictures)]
        plain, ours = ([in_turn(what, one[side]) for one in images] for side in (0, 1))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pictures, "extension", lambda: native.Core(module, variant, ""))
            lazy = [pictures.as_lazy(one) for one in ours]
            table = default_collate([in_turn(last, pictures.of_all_bytes("RGB"))] * 2)
            made = pictures.as_numbers(lazy, table)  # type: ignore[arg-type]
        expected = default_collate([in_turn(last, image) for image in plain])
        assert same(made.contiguous(), expected.contiguous())


def test_nobody_changes_the_bytes_that_others_share() -> None:
    image, ours = both((9, 8), 3, 1)
    changed = ours.copy()
    changed.putpixel((2, 3), (0, 1, 2))
    assert type(ours) is LazyPicture and ours == image and changed != image
    assert not np.asarray(ours).flags.writeable

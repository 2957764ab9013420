"""A picture of kept bytes, a PIL image to all who look: its crops, resizes and flips are done as one, natively.

Shape letters: H rows, W columns, C channels.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, final

import numpy as np
import torch
from PIL import Image

from hotlap.data.item.codec import picture
from hotlap.native import extension

_BILINEAR, _BICUBIC = 2, 3
_FLIPS = (0, 1)
"""`Image.Transpose.FLIP_LEFT_RIGHT` and `FLIP_TOP_BOTTOM`."""


@final
class LazyPicture(Image.Image):
    """Copies and parts of it share the bytes, which nobody changes: it becomes an image of PIL's own when a method of
    PIL's other than these asks for one (`im`)."""

    def __init__(self, pixels: Any, info: dict[Any, Any], *, box: Any, size: Any, resample: int, flips: int) -> None:
        """The part `box` of (H, W, C) `pixels`, then resized if `resample` is not 0, then turned over (bit 0: left to
        right, 1: top to bottom)."""
        super().__init__()
        for name in ("im", "_im"):  # of Pillow before 11, and since then
            self.__dict__.pop(name, None)
        self.info = dict(info)
        self._pixels, self._box, self._resample, self._flips = pixels, box, resample, flips
        self._mode = "L" if pixels.shape[2] == 1 else "RGB"
        self._size = size

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return Image.Image

    def __getattr__(self, name: str) -> Any:
        if name in ("im", "_im"):
            return getattr(self._pils_own(), name)
        raise AttributeError(name)

    def crop(self, box: Any = None) -> Any:
        """As PIL's."""
        left, top, right, bottom = map(round, box or (0, 0, *self._size))
        if not (0 <= left < right <= self._size[0] and 0 <= top < bottom <= self._size[1]):
            return self._pils_own().crop(box)
        self._render()
        x, y = self._box[:2]
        return self._but(box=(x + left, y + top, x + right, y + bottom), size=(right - left, bottom - top))

    def padded(self, border: int) -> "LazyPicture":
        """With so many black pixels around it. PIL's images have no such method."""
        self._render()
        (left, top, right, bottom), (width, height) = self._box, self._size
        pixels = np.zeros((height + 2 * border, width + 2 * border, self._pixels.shape[2]), np.uint8)
        pixels[border : border + height, border : border + width] = self._pixels[top:bottom, left:right]
        size = pixels.shape[1], pixels.shape[0]
        return LazyPicture(pixels, {}, box=(0, 0, *size), size=size, resample=0, flips=0)

    def resize(self, size: Any, resample: Any = None, box: Any = None, reducing_gap: Any = None) -> Any:
        """As PIL's."""
        usual = resample in (None, _BILINEAR, _BICUBIC) and box is None and reducing_gap is None
        if not usual or any(type(length) is not int or length < 1 for length in size):
            return self._pils_own().resize(size, resample, box, reducing_gap)
        self._render()
        return self._but(size=tuple(size), resample=_BICUBIC if resample is None else int(resample))

    def transpose(self, method: Any) -> Any:
        """As PIL's."""
        if method not in _FLIPS:
            return self._pils_own().transpose(method)
        return self._but(flips=self._flips ^ 1 << method)

    def copy(self) -> Any:
        """As PIL's."""
        return self._but()

    def tobytes(self, encoder_name: str = "raw", *args: Any) -> bytes:
        """As PIL's."""
        plain = encoder_name == "raw" and not args
        made: bytes = self._bytes().tobytes() if plain else self._pils_own().tobytes(encoder_name, *args)
        return made

    @property
    def __array_interface__(self) -> dict[str, Any]:
        pixels = self._bytes()
        shape = pixels.shape if self._mode == "RGB" else pixels.shape[:2]
        return {"shape": shape, "typestr": "|u1", "version": 3, "data": pixels}

    def __reduce__(self) -> Any:
        return picture, (self._mode, self._size, self.tobytes(), None, self.info)

    def _but(self, **other: Any) -> "LazyPicture":
        own = {"box": self._box, "size": self._size, "resample": self._resample, "flips": self._flips}
        return LazyPicture(self._pixels, self.info, **own | other)

    def _bytes(self) -> Any:
        """(H, W, C), one after the other, not to be written to."""
        self._render()
        left, top, right, bottom = self._box
        pixels = np.ascontiguousarray(self._pixels[top:bottom, left:right])
        pixels.flags.writeable = False
        return pixels

    def _render(self, *, columns_first: bool | None = None) -> None:
        """Resize and turn it over, where that is to be done: to be a part of bytes again, as which it is cropped and
        resized. (A resize of what is turned over is not the same turned over.) `columns_first`: see `_columns_first`;
        None: as it is with this Pillow."""
        if not (self._resample or self._flips):
            return
        made = np.empty((self.height, self.width, self._pixels.shape[2]), np.uint8)
        extension().module.resample(self._job(columns_first), made.ctypes.data)
        self._pixels, self._box, self._resample, self._flips = made, (0, 0, *self._size), 0, 0

    def _job(self, columns_first: bool | None = None) -> tuple[Any, ...]:
        """What `_render` does, as the native core takes it."""
        first = _columns_first() if columns_first is None else columns_first
        left, top, right, bottom = self._box
        fewer_columns, fewer_rows = right - left - self.width, bottom - top - self.height
        # From which difference on is not told there; it was found by trying 1,376 sizes.
        first = bool(first) and fewer_rows > max(0, 2 * fewer_columns)
        turned = bool(self._flips & 1), bool(self._flips & 2)
        source = self._pixels.ctypes.data, self._pixels.shape[1], self._box, self._size, self._pixels.shape[2]
        return *source, self._resample or _BILINEAR, first, *turned

    def _pils_own(self) -> Any:
        """This object, which is one of PIL's from now on."""
        own = vars(picture(self._mode, self._size, self._bytes(), None, self.info))
        vars(object)["__class__"].__set__(self, Image.Image)
        self.__dict__.clear()
        self.__dict__.update(own)
        return self


def lazy_picture(mode: str, size: tuple[int, int], data: Any, info: dict[Any, Any]) -> LazyPicture | None:
    """The image of these bytes; None where it cannot be a lazy one."""
    if mode not in ("L", "RGB") or min(size) < 1 or _columns_first() is None:
        return None
    pixels = np.frombuffer(data, np.uint8).reshape(size[1], size[0], -1)
    return LazyPicture(pixels, info, box=(0, 0, *size), size=size, resample=0, flips=0)


def as_lazy(image: Any) -> LazyPicture | None:
    """A copy of a plain image of PIL's, or of a lazy one, as a lazy one; None where it cannot be one."""
    return image.copy() if type(image) is LazyPicture else lazy_picture(image.mode, image.size, image.tobytes(), {})


def of_all_bytes(mode: str) -> Any:
    """An image of PIL's, (16, 16), with each of the 256 bytes in each channel once, in order."""
    values = np.arange(256, dtype=np.uint8).reshape(16, 16)
    return Image.merge(mode, [Image.fromarray(values)] * len(mode))


def as_numbers(pictures: Sequence[LazyPicture], table: torch.Tensor) -> torch.Tensor:
    """(B, C, H, W) float32 of lazy pictures of one size, made by the threads that torch takes.

    `table`: (2, C, 16, 16), what the 256 bytes become, twice: collated as the pictures would be.
    """
    width, height = pictures[0].size
    order = torch.contiguous_format if table.is_contiguous() else torch.channels_last
    shape = len(pictures), table.shape[1], height, width
    made = torch.empty(shape, dtype=torch.float32, device="cpu", memory_format=order)
    looked_up, (_, plane, _, pixel) = table[0].contiguous(), made.stride()
    jobs = [picture._job() for picture in pictures]
    extension().module.resample_batch(jobs, looked_up.data_ptr(), plane, pixel, made.data_ptr())
    return made


@cache
def _columns_first() -> bool | None:
    """Whether this Pillow resizes along the columns first where these shrink more, as it does since 13
    (python-pillow/Pillow#9549); None where the native core is missing, or does not do as Pillow does."""
    if extension().module is None:
        return None
    return next((first for first in (True, False) if all(_is_as_pillow(*one, first) for one in _TRIED)), None)


_TRIED = (
    ((67, 81), (5, 9, 60, 80), (32, 32), _BILINEAR),
    ((67, 81), (5, 9, 60, 80), (32, 32), _BICUBIC),
    ((90, 40), (0, 3, 77, 33), (50, 64), _BILINEAR),
    ((40, 90), (1, 0, 30, 88), (47, 42), _BICUBIC),
    ((33, 35), (2, 2, 20, 30), (18, 28), _BILINEAR),
    ((20, 300), (0, 0, 20, 300), (7, 5), _BICUBIC),
)
"""(size, box, size after it, filter): shrunk and enlarged, in one way and in both, and not at all."""


def _is_as_pillow(size: Any, box: Any, after: Any, resample: Any, columns_first: bool) -> bool:
    pixels = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), np.uint8)
    expected = Image.fromarray(pixels).crop(box).resize(after, resample).transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    ours = LazyPicture(pixels, {}, box=box, size=after, resample=resample, flips=1)
    ours._render(columns_first=columns_first)
    return bool(ours.mode == expected.mode and ours.size == expected.size and ours.tobytes() == expected.tobytes())
